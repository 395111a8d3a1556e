"""What a dev cluster is given once its brokers run: its tenant, a ready key, and the profile that holds
both.
"""

import secrets

import grpc

from data_plane.authz.credentials import SCRAM_SALT_BYTES, make_credential
from data_plane.dev.admin_client import AdminClient, read_failure
from data_plane.dev.broker_config import PEPPER_VERSION, read_pepper
from data_plane.dev.layout import BrokerSpec, ClusterSpec, DataDirectory
from data_plane.dev.profile import read_api_key, write_profile
from penstock.contract.api_keys import RANDOM_BYTES, ApiKey, make_api_key, parse_api_key
from penstock.contract.errors import AlreadyExists
from penstock.contract.methods import AUTHORIZATION, METADATA

ENVIRONMENT = "dev"
_PROOF_S = 5.0


def admin_of(directory: DataDirectory) -> AdminClient:
    """A client of the cluster's Admin service, with the cluster secret."""
    secret = directory.secret_file.read_text().strip()
    return AdminClient([broker.internal_address for broker in directory.load().brokers], secret)


def new_key() -> ApiKey:
    """A key of the dev environment from the operating system's randomness."""
    return make_api_key(ENVIRONMENT, secrets.token_bytes(RANDOM_BYTES))


def put_key(directory: DataDirectory, admin: AdminClient, key: ApiKey, *, tenant: str, name: str) -> int:
    """Make `key` valid and wait until every active broker knows it; returns its principal number."""
    credential = make_credential(
        key,
        pepper_version=PEPPER_VERSION,
        pepper=read_pepper(directory),
        salts=secrets.token_bytes(2 * SCRAM_SALT_BYTES),
    )
    principal, revision = admin.put_key(credential, tenant=tenant, name=name)
    admin.wait_until_seen(revision)
    return principal


def provision(directory: DataDirectory, spec: ClusterSpec, admin: AdminClient) -> None:
    """Give the cluster its tenant and key, and write the profile. Repeating it changes nothing but a moved
    address.

    The key is written down before it is made valid: a crash between the two leaves a key that the next call
    makes
    valid, never a valid key that nobody has.
    """
    known = read_api_key(directory)
    key = new_key() if known is None else parse_api_key(known)
    write_profile(directory, spec, key.reveal())
    admin.put_tenant(spec.tenant)
    try:
        put_key(directory, admin, key, tenant=spec.tenant, name="dev up")
    except AlreadyExists:
        pass  # made by an earlier call; its verifiers have other salts, but it is the same key
    for broker in spec.brokers:
        _prove(broker, key)


def _prove(broker: BrokerSpec, key: ApiKey) -> None:
    """Ask the broker something with the key. Raises what a client would get."""
    with grpc.insecure_channel(broker.client_address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METADATA)
        try:
            call(b"", timeout=_PROOF_S, metadata=((AUTHORIZATION, f"Bearer {key.reveal()}"),))
        except grpc.RpcError as error:
            raise read_failure(error) from error
