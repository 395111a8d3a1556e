"""The account of a dev service: signed up over REST, with a key that goes into the profile."""

import json
import secrets
from dataclasses import asdict, dataclass
from typing import Self

from local.layout import ClusterSpec, DataDirectory
from local.profile import read_api_key, write_profile
from local.service_layout import ServiceDirectory, ServiceSpec
from penstock.admin.blocking import Admin
from penstock.contract.errors import AlreadyExists, Forbidden, InvalidRequest, PenstockError, Unauthenticated
from penstock.private_file import write_private
from penstock.rest.client import RestClient

_PERSON = "dev@penstock.example"
_TENANT_NAME = "dev"
_KEY_NAME = "dev up"
_START_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who signs in, and the tenant; the tenant is empty until the sign-up has been answered."""

    email: str
    password: str
    tenant: str = ""

    def __repr__(self) -> str:
        return f"Account(email={self.email!r}, tenant={self.tenant!r})"

    def encode(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def decode(cls, text: str) -> Self:
        return cls(**json.loads(text))


def read_account(directory: ServiceDirectory) -> Account | None:
    """The account that was signed up here; None before there is one."""
    try:
        return Account.decode(directory.account_file.read_text())
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"{directory.account_file}: cannot be read: {error}") from error


def sign_up(directory: ServiceDirectory, spec: ServiceSpec) -> tuple[Account, str | None]:
    """The service's account, made unless it is there; returns it with a session token when it was made now.

    The password is written down before it is sent: a crash between the two leaves an account that the next call
    signs in to, never one without a known password.
    """
    account = read_account(directory)
    if account is not None and account.tenant:
        return account, None
    if account is None:
        account = Account(email=_PERSON, password=secrets.token_urlsafe(18))
        write_private(directory.account_file, account.encode())
    with RestClient(spec.api_url, timeout_s=_START_S) as rest:
        wanted = {"email": account.email, "password": account.password, "tenant": _TENANT_NAME}
        try:
            answer = rest.post("/v1/sign-up", wanted)
            token, tenant = str(answer["token"]), str(answer["tenant"]["id"])
        except AlreadyExists:
            token = sign_in(spec, account)
            with RestClient(spec.api_url, token, timeout_s=_START_S) as signed_in:
                tenant = str(next(signed_in.items("/v1/tenants"))["id"])
    account = Account(email=account.email, password=account.password, tenant=tenant)
    write_private(directory.account_file, account.encode())
    return account, token


def sign_in(spec: ServiceSpec, account: Account) -> str:
    """A session token."""
    with RestClient(spec.api_url, timeout_s=_START_S) as rest:
        body = {"email": account.email, "password": account.password}
        return str(rest.post("/v1/sign-in", body)["token"])


def provision_account(
    cluster_directory: DataDirectory, directory: ServiceDirectory, cluster: ClusterSpec, spec: ServiceSpec
) -> Account:
    """Give the service its account and key, and write the profile. Repeating it makes nothing new while the key
    of the profile is good.
    """
    account, token = sign_up(directory, spec)
    key = read_api_key(cluster_directory)
    if key is None or not _is_good(spec, key):
        with RestClient(spec.api_url, token or sign_in(spec, account), tenant=account.tenant) as rest:
            key = Admin(rest).create_key(_KEY_NAME, timeout=_START_S).api_key
    write_profile(cluster_directory, cluster, key, tenant=account.tenant, api_url=spec.api_url)
    return account


def _is_good(spec: ServiceSpec, key: str) -> bool:
    with RestClient(spec.api_url, key, timeout_s=_START_S) as rest:
        try:
            Admin(rest).topics()
        except (Unauthenticated, Forbidden):
            return False
        except PenstockError:
            return True
    return True
