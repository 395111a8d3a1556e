"""The configuration of the web application and the worker: one JSON file, PENSTOCK_SERVER_* in the environment above
it, read once and frozen. `docs/reference/settings.md` lists the settings, made from the model.
"""

import os
import re
from collections.abc import Mapping
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Meta

from daemon import server_tls, settings
from daemon.data_set_store import BucketSettings, DataSetStore
from daemon.data_set_stores import open_store
from daemon.server_tls import ServerTls
from daemon.settings import Refused, Secret, Settings
from daemon.tls import IdentityConfig
from penstock.contract.api_keys import ENV_LENGTH_MAX, is_env
from penstock.contract.errors import ConfigurationError
from penstock.rules.addresses import is_loopback

VARIABLE = "PENSTOCK_CONFIG"
"""Names the file to the commands of `python -m control_plane`, and to what a process forks."""
ENVIRONMENT_PREFIX = "PENSTOCK_SERVER_"
RECONCILE_S = 10
TRANSPORTS = {
    "filesystem": "filesystem:///absolute/folder",
    "redis": "redis://host:port/number",
    "rediss": "rediss://host:port/number over TLS",
}
"""What can carry wake-ups, by the scheme of `celery_broker_url`."""
Network = IPv4Network | IPv6Network
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[int, Meta(ge=1, le=86_400)]
Text = Annotated[str, Meta(min_length=1)]
Texts = Annotated[tuple[str, ...], Meta(min_length=1)]


def _split(name: str, url: str) -> SplitResult:
    """The parts of an address whose port is one. Raises `Refused`, which does not show what may be a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Refused(
            name, "no address; scheme://host:port required, other signs than : / @ as %3A %2F %40"
        ) from None
    return parts


class BrokersConfig(Settings, frozen=True, kw_only=True):
    """How the control plane reaches the brokers, and the pepper it shares with them by file."""

    bootstrap: Texts
    """host:port of client listeners, as tenants see them."""
    internal: Texts
    """host:port of internal listeners to begin with; brokers that join later are learnt from them."""
    pepper_file: Path
    """File with the pepper that new API keys are made with, hex."""
    pepper_version: Count
    """The pepper's number, the same as in the brokers' `pepper_files`."""
    pepper_folder: Path | None = None
    """Folder in which the worker makes later peppers, the same for all processes of the control plane and for the
    brokers' `pepper_folder`. Without it the pepper stays."""
    pepper_days: Annotated[int, Meta(ge=0, le=3_650)] = 90
    """Days until the worker makes the next pepper; 0 = only `penstock server rotate-pepper` does."""
    ca_file: Path | None = None
    """Authorities of the certificates of client listeners, PEM, which the console reads from; required off loopback
    unless the variable PENSTOCK_CA_FILE names them."""

    def __post_init__(self) -> None:
        for name in ("bootstrap", "internal"):
            for address in getattr(self, name):
                settings.host_of(name, address)


class MailConfig(Settings, frozen=True, kw_only=True):
    """The mail server that e-mails are given to."""

    server: Text
    """host:port of an SMTP server."""
    sender: Text
    """The address that e-mails come from."""
    tls: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection is protected; `none` only to this host."""
    ca_file: Path | None = None
    """File with the CAs of which one must have signed the server's certificate; without it, those of the system."""
    user: Text | None = None
    """Name to sign in to the server with; without it, the server is not signed in to."""
    password: Secret | None = None
    """Its password."""

    def __post_init__(self) -> None:
        host = settings.host_of("server", self.server)
        if not re.fullmatch(r"[^@\s<>]+@[^@\s<>]+", self.sender):
            raise Refused("sender", f"an e-mail address required, {self.sender[:80]!r} given")
        if self.tls == "none" and not is_loopback(host):
            raise Refused("tls", "an e-mail may have a link that signs people in; starttls or tls required")
        if (self.user is None) != (self.password is None):
            raise Refused("password", "user and password required, or neither")


class ProviderConfig(Settings, frozen=True, kw_only=True):
    """A provider of OpenID Connect with which people may sign in."""

    id: Text
    """a-z 0-9 and -; part of the address that the provider sends people back to: /sign-in/with/ID/back."""
    name: Text
    """How the button of the sign-in page calls it."""
    issuer: Text
    """Its issuer, an https URL, exactly as in its tokens; what else is needed, it says itself."""
    client_id: Text
    """Who this service is to the provider."""
    client_secret: Secret
    """The secret that the provider gave to it."""
    ca_file: Path | None = None
    """File with the CAs of which one must have signed the provider's certificate; without it, those of the system."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9-]{1,32}", self.id):
            raise Refused("id", f"1 to 32 of a-z 0-9 - required, {self.id[:40]!r} given")
        parts = _split("issuer", self.issuer)
        within = parts.scheme == "http" and is_loopback(parts.hostname or "")
        if not parts.hostname or parts.query or parts.fragment or not (parts.scheme == "https" or within):
            raise Refused("issuer", f"https://host required, {self.issuer[:80]!r} given")


class WebhooksConfig(Settings, frozen=True, kw_only=True):
    """Where webhooks of tenants may lead."""

    allowed_networks: tuple[str, ...] = ()
    """Networks and addresses that are not public and that tenants' webhooks may lead to all the same, as 10.20.0.0/16.
    Without them only public addresses are connected to."""
    ca_file: Path | None = None
    """File with CAs that may sign the certificates of endpoints, beside those of the system."""

    def __post_init__(self) -> None:
        try:
            _networks(self.allowed_networks)
        except ValueError as error:
            raise Refused("allowed_networks", f"{error}; addresses and networks required") from error

    @property
    def networks(self) -> tuple[Network, ...]:
        """The networks of `allowed_networks`."""
        return _networks(self.allowed_networks)


class InvoicesConfig(Settings, frozen=True, kw_only=True):
    """Who invoices."""

    issuer: Text = "Penstock"
    """Name of the company that issues invoices."""
    issuer_lines: Annotated[tuple[Text, ...], Meta(max_length=12)] = ()
    """What else an invoice says of it, a line each: address and registration."""
    issuer_tax_id: Annotated[str, Meta(max_length=50)] = ""
    """Its tax number, which the law of the EU and others require on invoices."""
    bank_lines: Annotated[tuple[Text, ...], Meta(max_length=8)] = ()
    """Where tenants pay by bank, a line each: holder, IBAN, BIC. It stands on invoices that are open, and in e-mails of
    them."""
    number_series: Annotated[str, Meta(pattern=r"^[A-Z0-9]{0,20}\Z")] = ""
    """What the numbers of invoices and credit notes begin with: EU gives EU-INV-000001. Numbers are without gaps in
    each series; take another one only for another issuer, and not again."""


class ServiceLevelsConfig(Settings, frozen=True, kw_only=True):
    """What tenants are promised of exclusions."""

    exclusion_notice_hours: Annotated[int, Meta(ge=1, le=720)] = 72
    """Hours before its beginning at which time that operators take out of service levels is announced at the latest."""


class PaymentsConfig(Settings, frozen=True, kw_only=True):
    """When invoices are due, what happens to those that are not paid, and how Stripe collects them."""

    due_days: Annotated[int, Meta(ge=0, le=365)] = 14
    """Days from the issue of an invoice to its due date."""
    reminder_days: Annotated[tuple[Annotated[int, Meta(ge=0, le=365)], ...], Meta(max_length=10)] = (
        0,
        3,
        7,
        14,
    )
    """Days after the due date at which an unpaid invoice is reminded of by e-mail. A day after the last one operators
    are alerted."""
    days_to_suspend: Annotated[int, Meta(ge=1, le=3_650)] | None = None
    """Days after the due date at which a tenant with an unpaid invoice is suspended, later than the last reminder,
    which says so. Without it no tenant is."""
    stripe_key_file: Path | None = None
    """File with the secret key of Stripe's API. Without it payment through Stripe is off, and operators note payments
    by bank."""
    stripe_webhook_secret_file: Path | None = None
    """File with the secret by which Stripe signs webhooks; without it they are refused."""
    stripe_api_base: Text = "https://api.stripe.com"
    """Where Stripe's API is: https://host, without a path. Another one is for a stand-in of Stripe, which may be
    http://host on loopback."""
    stripe_tax: bool = False
    """Whether Stripe Tax states the tax of invoices, from each tenant's next period on. Tenants whose terms have a
    table of tax are taxed by it. It requires `stripe_key_file`, and Stripe Tax set up at Stripe."""
    stripe_tax_code: Annotated[str, Meta(pattern=r"^txcd_[0-9]{8}\Z")] | None = None
    """Stripe's code of what is sold, as txcd_10103001; without it the one that is preset at Stripe."""

    def __post_init__(self) -> None:
        parts = _split("stripe_api_base", self.stripe_api_base)
        within = parts.scheme == "http" and is_loopback(parts.hostname or "")
        bare = parts.hostname and self.stripe_api_base == f"{parts.scheme}://{parts.netloc}"
        if not bare or "@" in parts.netloc or not (parts.scheme == "https" or within):
            raise Refused(
                "stripe_api_base",
                "https://host required, without a path, a user or a password; http on loopback alone",
            )
        if self.stripe_tax and self.stripe_key_file is None:
            raise Refused("stripe_tax", "stripe_key_file is required beside it")
        if list(self.reminder_days) != sorted(set(self.reminder_days)):
            raise Refused("reminder_days", "each day once, in their order")
        if self.days_to_suspend is not None and not self.reminder_days:
            raise Refused("days_to_suspend", "a reminder that says so is required in reminder_days")
        if self.days_to_suspend is not None and self.days_to_suspend <= max(self.reminder_days, default=0):
            raise Refused("days_to_suspend", "later than the last of reminder_days required")


class Config(Settings, frozen=True, kw_only=True):
    """The settings of the control plane. Times are in seconds."""

    file: Path
    """The file itself; it is not in the file."""
    environment: Text
    """Part of every API key; `test` and `dev` are not for tenants' real data."""
    secret_key: Secret
    """Signs sessions and forms."""
    database_url: Secret
    """sqlite:////absolute/file or postgresql://user:password@host:port/name; a primary and its standbys as
    host:port,host:port, of which the one that takes writes is used."""
    celery_broker_url: Secret
    """filesystem:///absolute/folder, redis://host:port/number or, over TLS, rediss://host:port/number."""
    public_url: Text
    """The URL under which people reach the service; https behind a proxy that terminates TLS."""
    listen: Text
    """host:port of the web application."""
    web_metrics_listen: Text = "127.0.0.1:0"
    """host:port of the web application's /metrics, and of a /healthz and /readyz beside its requests; port 0 chooses
    one. It asks for no key, and tells what tenants owe: bind it where only operators reach it."""
    worker_listen: Text = "127.0.0.1:0"
    """host:port of the worker's /healthz, /readyz and /metrics; port 0 chooses one."""
    prober_listen: Text = "127.0.0.1:0"
    """host:port of the prober's /healthz, /readyz and /metrics; port 0 chooses one."""
    brokers: BrokersConfig
    """The brokers."""
    identity: IdentityConfig
    """Who the control plane is to the brokers, and whom it believes."""
    datasets: Path
    """Folder of the data sets that the usage pipeline publishes; not looked at where `data_set_bucket` is given."""
    usage_key_file: Path
    """File with the key of the service account that reads `__usage`; `bootstrap` writes it."""
    operator_token_file: Path
    """File with the operators' token; `bootstrap` writes it."""
    pipeline_interval_s: Seconds
    """Seconds between two rounds of the usage pipeline."""
    data_set_bucket: BucketSettings | None = None
    """Bucket where the usage pipeline publishes instead, as an object; the same as the pipeline's."""
    mail: MailConfig | None = None
    """Mail server. Without it each e-mail is written to a file in the folder `mail` of `state`, addresses of people are
    not verified, and signing up takes effect at once."""
    sign_in_providers: tuple[ProviderConfig, ...] = ()
    """Providers with which people may sign in besides their password."""
    webhooks: WebhooksConfig | None = None
    """Where webhooks of tenants may lead. Without it only to public addresses."""
    invoices: InvoicesConfig = InvoicesConfig()
    """What invoices say of who issues them."""
    payments: PaymentsConfig = PaymentsConfig()
    service_levels: ServiceLevelsConfig = ServiceLevelsConfig()
    """Payment of invoices."""
    price_book_file: Path | None = None
    """File with the price book; without it the built-in prices apply."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of the proxies that terminate TLS: only their X-Forwarded-For and -Proto are believed."""
    reconcile_interval_s: Seconds = RECONCILE_S
    """Seconds between two comparisons of the desired state with the brokers."""
    state: Path | None = None
    """Folder for small files of this host's processes; the folder of this file unless given."""
    database_tls: ServerTls | None = None
    """TLS to PostgreSQL, which checks its certificate and host name; required off loopback."""
    redis_tls: ServerTls | None = None
    """The same to Redis, with rediss://."""

    def __post_init__(self) -> None:
        if not is_env(self.environment):
            raise Refused(
                "environment", f"1 to {ENV_LENGTH_MAX} of a-z 0-9 required, {self.environment[:40]!r} given"
            )
        settings.host_of("listen", self.listen)
        settings.host_of("web_metrics_listen", self.web_metrics_listen)
        settings.host_of("worker_listen", self.worker_listen)
        settings.host_of("prober_listen", self.prober_listen)
        public = _split("public_url", self.public_url)
        if public.scheme not in ("http", "https") or not public.hostname:
            raise Refused(
                "public_url", f"http://host or https://host required, {self.public_url[:80]!r} given"
            )
        server_tls.check_database(self.database_url, self.database_tls)
        server_tls.check_transport(self.celery_broker_url, self.redis_tls)
        ids = [one.id for one in self.sign_in_providers]
        if len(set(ids)) < len(ids):
            raise Refused("sign_in_providers", "two have the same id")
        try:
            _networks(self.trusted_proxies)
        except ValueError as error:
            raise Refused("trusted_proxies", f"{error}; addresses and networks required") from error

    @property
    def trusted_networks(self) -> tuple[Network, ...]:
        """The networks of `trusted_proxies`."""
        return _networks(self.trusted_proxies)

    @property
    def webhook_networks(self) -> tuple[Network, ...]:
        """Networks that are not public and that webhooks may lead to."""
        return () if self.webhooks is None else self.webhooks.networks

    @property
    def data_set_store(self) -> DataSetStore:
        """Where published data sets rest. Raises `StoreUnavailable`."""
        return _store(self.datasets, self.data_set_bucket)

    @property
    def over_tls(self) -> bool:
        """Whether people reach the service over TLS, here or at a proxy."""
        return urlsplit(self.public_url).scheme == "https"

    @property
    def state_directory(self) -> Path:
        """The folder of this host's small files, such as rate counts without a Redis."""
        return self.state or self.file.parent


OF_PIPELINE = frozenset({"bronze_days", "runner_listen", "spark"})
"""Settings in the same file that only the usage pipeline reads."""


@cache
def current() -> Config:
    """The configuration of this process. Raises `ConfigurationError`."""
    name = os.environ.get(VARIABLE)
    if not name:
        raise ConfigurationError(f"{VARIABLE}: missing; it names the configuration file")
    return read(Path(name), os.environ)


def read(file: Path, environment: Mapping[str, str] | None = None) -> Config:
    """The settings in `file`, those of the environment above them. Raises `ConfigurationError`."""
    return settings.read(
        file,
        Config,
        given={"file": str(file.absolute())},
        environment=environment,
        prefix=ENVIRONMENT_PREFIX,
        others=OF_PIPELINE,
    )


@cache
def _store(folder: Path, bucket: BucketSettings | None) -> DataSetStore:
    """One for each process: a bucket's client holds connections, and is safe between threads."""
    return open_store(folder, bucket)


@cache
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


def keep_private(settings: dict[str, Any]) -> None:
    """Make the embedded database, and the files that SQLite puts beside it, readable by their owner only: it stores
    hashes of passwords. A missing file is made with these rights.
    """
    if not settings["ENGINE"].endswith("sqlite3"):
        return
    file = Path(settings["NAME"])
    if file.parent.is_dir():
        os.close(os.open(file, os.O_RDONLY | os.O_CREAT, 0o600))
    for one in (file, file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
        if one.exists() and one.stat().st_uid == os.geteuid():
            one.chmod(0o600)


def _servers(url: str) -> tuple[str, list[tuple[str, str]]]:
    """The address with its first server alone, and (host, port) of each server. Raises `Refused`."""
    scheme, parted, rest = url.partition("://")
    servers, slash, behind = rest.partition("/")
    user, at, hosts = servers.rpartition("@")
    behind = behind.removesuffix("?target_session_attrs=read-write")
    each = [f"{scheme}{parted}{user}{at}{host}{slash}{behind}" for host in hosts.split(",")]
    parts = [_split("database_url", one) for one in each]
    if len(parts) > 1 and not all(part.hostname for part in parts):
        raise Refused("database_url", "a host is empty; host:port,host:port required")
    return each[0], [(part.hostname or "", str(part.port or 5432)) for part in parts]


def database(url: str, tls: ServerTls | None = None) -> dict[str, Any]:
    """Django's settings of the database at `url`. Raises `ConfigurationError` without showing the password."""
    try:
        first, servers = _servers(url)
        parts = _split("database_url", first)
    except Refused as refused:
        raise ConfigurationError(str(refused)) from None
    if parts.scheme == "sqlite" and parts.path.startswith("/"):
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": unquote(parts.path.replace("//", "/", 1)),
            # Opening it takes 3 ms of processor time, more than most requests take in it.
            "CONN_MAX_AGE": 60,
            "OPTIONS": {
                # A transaction takes the write lock when it begins, so none fails half way without the lock.
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                # Only `embedded_database` makes checkpoints (docs/decisions/0011).
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; "
                "PRAGMA wal_autocheckpoint=0;",
            },
        }
    if parts.scheme == "postgresql" and parts.hostname and len(parts.path) > 1:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path[1:]),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": ",".join(host for host, _ in servers),
            "PORT": ",".join(port for _, port in servers),
            "CONN_MAX_AGE": 60,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {
                "connect_timeout": 5,
                # A server that goes away without a word is noticed, and so is one that became a standby.
                "tcp_user_timeout": 10_000,
                "keepalives_idle": 5,
                "keepalives_interval": 5,
                **server_tls.of_libpq(tls),
                **({"target_session_attrs": "read-write"} if len(servers) > 1 else {}),
            },
        }
    raise ConfigurationError(
        f"database_url: scheme {parts.scheme!r}; sqlite:////absolute/file or "
        "postgresql://user:password@host:port/name required"
    )
