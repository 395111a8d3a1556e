"""The way of commands to the control plane."""

from contextlib import closing
from typing import Any, NoReturn

from penstock.admin.blocking import Admin
from penstock.cli.display import line
from penstock.cli.dry_run import Foreseen
from penstock.cli.invocation import current
from penstock.cli.sign_ins import credential
from penstock.client.settings import ConnectionSettings
from penstock.contract.api_keys import MalformedApiKey, parse_api_key
from penstock.contract.errors import Forbidden, NotFound
from penstock.profiles import connection_settings
from penstock.rest.client import REACH_S, RestClient, segment


def settings(*, brokers: bool = False) -> ConnectionSettings:
    """Addresses and key of this invocation. Most commands call REST alone; `brokers`: it needs one's address too.

    Raises `ConfigurationError`.
    """
    return connection_settings(profile=current().profile, brokers=brokers)


class ForeseeingClient(RestClient):
    """Asks for a dry run of every change, and raises `Foreseen` with the answer: nothing that is built on the change
    happens.
    """

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        timeout_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> NoReturn:
        """As the client's, of a dry run. Raises `Foreseen`."""
        raise Foreseen(super().post(_foreseen(path), body, timeout_s=timeout_s))

    def patch(self, path: str, body: Any, *, timeout_s: float | None = None) -> NoReturn:
        """As the client's, of a dry run. Raises `Foreseen`."""
        raise Foreseen(super().patch(_foreseen(path), body, timeout_s=timeout_s))

    def put(self, path: str, body: Any, *, timeout_s: float | None = None) -> NoReturn:
        """As the client's, of a dry run. Raises `Foreseen`."""
        raise Foreseen(super().put(_foreseen(path), body, timeout_s=timeout_s))

    def delete(self, path: str, *, timeout_s: float | None = None) -> NoReturn:
        """As the client's, of a dry run. Raises `Foreseen`."""
        raise Foreseen(super().delete(_foreseen(path), timeout_s=timeout_s))


def _foreseen(path: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}dry_run=true"


def client_with(
    chosen: ConnectionSettings,
    credential: str | None,
    *,
    tenant: str | None = None,
    reach_s: float | None = None,
) -> RestClient:
    """A client of the invocation's service with this credential."""
    kind = ForeseeingClient if current().dry_run else RestClient
    return kind(chosen.api_url, credential, chosen.ca_file, tenant=tenant, reach_s=reach_s)


def rest_client(
    chosen: ConnectionSettings | None = None, *, tenant: str | None = None, reach_s: float | None = None
) -> RestClient:
    """A client with the invocation's credential: that of `PENSTOCK_API_KEY`, else the profile's sign-in, else its
    key. `tenant` goes before that of the sign-in. It opens no connection before its first call.
    """
    chosen = settings() if chosen is None else chosen
    used = credential(chosen)
    return client_with(chosen, used.text, tenant=tenant or used.tenant, reach_s=reach_s)


def own_key(chosen: ConnectionSettings | None = None) -> str:
    """Id of the key that the invocation asks the control plane with; empty: it uses another credential, or none."""
    chosen = settings() if chosen is None else chosen
    try:
        return f"key_{parse_api_key(credential(chosen).text or '').key_id}"
    except MalformedApiKey:
        return ""


LET_IN = (
    "An owner or admin can let it in, signed in at the console or with their token: penstock access allow."
)


def hidden(rest: RestClient, key: str, kind: str, timeout_s: float) -> str:
    """The `topics` or `groups` that the access list hides from the invocation's key of this id, and by what.

    Empty: none, or the key may not know.
    """
    if not key:
        return ""
    try:
        return str(rest.get(f"/v1/keys/{segment(key)}", timeout_s=timeout_s).get(f"hidden_{kind}", ""))
    except (Forbidden, NotFound):
        return ""


def why_none(kind: str, otherwise: str, timeout_s: float) -> str:
    """What a command says that lists no `topics` or `groups`: that the access list hides them, or `otherwise`."""
    if settings().api_url is None:
        return otherwise
    with closing(rest_client()) as rest:
        text = hidden(rest, own_key(), kind, timeout_s)
    return line(f"The access list hides {kind} from this key: {text}. {LET_IN}") if text else otherwise


def patient_client(chosen: ConnectionSettings | None = None) -> RestClient:
    """As `rest_client`, for a command whose answer may take minutes. It says in seconds that there is no service."""
    return rest_client(chosen, reach_s=REACH_S)


def admin_client(chosen: ConnectionSettings | None = None) -> Admin:
    """The SDK's calls to the control plane with the invocation's credential. Close it."""
    return Admin(rest_client(chosen))
