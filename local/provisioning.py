"""What a dev cluster is given once its brokers run: its tenant, a ready key, and the profile that holds
both.
"""

import secrets
import time
from collections.abc import Sequence

import grpc

from data_plane.contract import admin_pb2 as pb
from data_plane.contract.admin_client import AdminClient
from data_plane.contract.broker_calls import read_failure
from data_plane.placement.planner import BrokerView, plan
from local.broker_config import PEPPER_VERSION, read_pepper
from local.layout import BrokerSpec, ClusterSpec, DataDirectory
from local.profile import read_api_key, write_profile
from penstock.contract.api_keys import RANDOM_BYTES, ApiKey, make_api_key, parse_api_key
from penstock.contract.errors import AlreadyExists
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.limits import MIN_INSYNC_DEFAULT, REPLICATION_DEFAULT
from penstock.contract.methods import AUTHORIZATION, METADATA
from penstock.contract.topic_settings import UNLIMITED, TopicSettings
from penstock.rules.credentials import SCRAM_SALT_BYTES, make_credential
from penstock.rules.domains import ACTIVE
from penstock.transport.grpc_terms import NO_PROXY

ENVIRONMENT = "dev"
INTERNAL_TOPICS = (("__usage", 3), ("__groups", 8))
"""Name and partitions of the topics that the service keeps for itself."""
_PROOF_S = 5.0
_ACTIVE_S = 20.0
"""A broker that is ready and was suspected wrongly registers again within a second or two."""
_POLL_S = 0.05


def admin_of(directory: DataDirectory) -> AdminClient:
    """A client of the cluster's Admin service, as its operator."""
    addresses = [broker.internal_address for broker in directory.load().brokers]
    return AdminClient(addresses, directory.certificates.operator())


def new_key() -> ApiKey:
    """A key of the dev environment from the operating system's randomness."""
    return make_api_key(ENVIRONMENT, secrets.token_bytes(RANDOM_BYTES))


def put_key(
    directory: DataDirectory,
    admin: AdminClient,
    key: ApiKey,
    *,
    tenant: str,
    name: str,
    owner: str = "",
    bindings: Sequence[pb.Binding] = (),
) -> int:
    """Make `key` valid, of the principal `owner` (empty: of none), with these scopes, and wait until every active
    broker knows it; returns its principal number."""
    credential = make_credential(
        key,
        pepper_version=PEPPER_VERSION,
        pepper=read_pepper(directory),
        salts=secrets.token_bytes(2 * SCRAM_SALT_BYTES),
    )
    answer = admin.put_key(credential, tenant=tenant, name=name, owner=owner, bindings=bindings)
    admin.wait_until_seen(answer.outcome)
    return answer.principal


def provision(directory: DataDirectory, spec: ClusterSpec, admin: AdminClient) -> None:
    """Give the cluster its tenant and key, and write the profile. Repeating it changes nothing but a moved
    address.

    The key is written down before it is made valid: a crash between the two leaves a key that the next call
    makes
    valid, never a valid key that no file has.
    """
    known = read_api_key(directory)
    key = new_key() if known is None else parse_api_key(known)
    write_profile(directory, spec, key.reveal())
    admin.put_tenant(spec.tenant)
    try:
        put_key(directory, admin, key, tenant=spec.tenant, name="dev up")
    except AlreadyExists:
        pass  # made by an earlier call; its verifiers have other salts, but it is the same key
    provision_internal_topics(admin, len(spec.brokers))
    for broker in spec.brokers:
        _prove(broker, key)


def provision_internal_topics(admin: AdminClient, brokers: int) -> None:
    """Make the system tenant with its topics, replicated over up to three of `brokers` brokers, kept without an end.

    For a cluster that no control plane provisions. Repeating it changes nothing. Raises `PlacementRefused` when
    too few brokers are active.
    """
    admin.put_tenant(SYSTEM_TENANT)
    replication = min(REPLICATION_DEFAULT, brokers)
    settings = TopicSettings(
        replication=replication,
        min_insync_replicas=min(MIN_INSYNC_DEFAULT, replication),
        retention_ms=UNLIMITED,
        retention_bytes=UNLIMITED,
    )
    made = pb.Outcome()
    for name, partitions in INTERNAL_TOPICS:
        assignments = plan(partitions, replication, _active(admin, brokers))
        try:
            made = admin.create_topic(SYSTEM_TENANT, name, settings, assignments).outcome
        except AlreadyExists:
            pass  # made by an earlier call
    admin.wait_until_seen(made)


def broker_views(admin: AdminClient) -> list[BrokerView]:
    """All brokers as the planner sees them."""
    return [
        BrokerView(id=b.id, zone=b.zone, host=b.host, replicas=b.replicas, leaders=b.leaders, state=b.state)
        for b in admin.describe_cluster().brokers
    ]


def _active(admin: AdminClient, brokers: int) -> list[BrokerView]:
    """All brokers as the planner sees them, once `brokers` of them are active or the wait has been long enough."""
    deadline = time.monotonic() + _ACTIVE_S
    while True:
        seen = broker_views(admin)
        if sum(broker.state == ACTIVE for broker in seen) >= brokers or time.monotonic() > deadline:
            return seen
        time.sleep(_POLL_S)


def _prove(broker: BrokerSpec, key: ApiKey) -> None:
    """Ask the broker something with the key. Raises what a client would get."""
    with grpc.insecure_channel(broker.client_address, options=[NO_PROXY]) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METADATA)
        try:
            call(b"", timeout=_PROOF_S, metadata=((AUTHORIZATION, f"Bearer {key.reveal()}"),))
        except grpc.RpcError as error:
            raise read_failure(error, broker.client_address) from error
