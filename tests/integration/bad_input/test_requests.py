"""Requests that are no messages, or that ask for more than one request may."""

import time

import grpc
import pytest

from data_plane.contract import admin_pb2
from data_plane.contract import methods as internal
from penstock.contract import limits, methods
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2 as pb
from tests.integration.brokers import Brokers, Tenant
from tests.integration.raw_wire import Refused, call, with_key
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("unharmed")]

PROMPT_S = 60.0
UNREADABLE = b"\xff" * 9
CLIENT_CALLS = [methods.METADATA, methods.LIST_OFFSETS, methods.INIT_PRODUCER]
INTERNAL_CALLS = sorted(path for path in vars(internal).values() if ".Admin/" in str(path))


def ask(cluster: Brokers, tenant: Tenant, method: str, request: bytes) -> Refused:
    """The refusal of one request, which must come promptly."""
    spec = cluster.spec.brokers[0]
    clients = method in CLIENT_CALLS
    address = spec.client_address if clients else spec.internal_address
    who = with_key(tenant.api_key) if clients else cluster.issued("control-plane")
    began = time.monotonic()
    with pytest.raises(Refused) as refused:
        call(address, method, request, pb.MetadataResponse, who)
    assert time.monotonic() - began < PROMPT_S
    return refused.value


@pytest.mark.parametrize("method", [*CLIENT_CALLS, *INTERNAL_CALLS])
def test_an_unreadable_request_is_refused_by_the_name_of_its_message(
    cluster: Brokers, tenant: Tenant, method: str
) -> None:
    refused = ask(cluster, tenant, method, UNREADABLE)
    assert (refused.code, refused.status) == (ErrorCode.INVALID_REQUEST, grpc.StatusCode.INVALID_ARGUMENT)
    assert refused.message == f"the request is no {method.rpartition('/')[2]}Request"


@pytest.mark.parametrize("method", [*CLIENT_CALLS, *INTERNAL_CALLS])
@pytest.mark.parametrize("size", [limits.FRAME_HEAD_BYTES_MAX + 1, limits.FRAME_BYTES_MAX + 2 * limits.MIB])
def test_an_oversize_request_is_refused(cluster: Brokers, tenant: Tenant, method: str, size: int) -> None:
    refused = ask(cluster, tenant, method, bytes(size))
    assert refused.status is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(size) in refused.message


@pytest.mark.parametrize("method", [methods.METADATA, methods.LIST_OFFSETS])
def test_a_request_for_too_many_things_is_refused_with_the_limit(
    cluster: Brokers, tenant: Tenant, method: str
) -> None:
    refused = ask(cluster, tenant, method, b"\x0a\x00" * (limits.FRAME_HEAD_BYTES_MAX // 2))
    assert refused.code == ErrorCode.LIMIT_EXCEEDED
    assert refused.message.endswith(
        f"in one request, at most {limits.FRAME_ENTRIES_MAX} allowed; send several"
    )


def test_a_watch_of_too_many_topics_is_refused_with_the_limit(cluster: Brokers, tenant: Tenant) -> None:
    with grpc.insecure_channel(cluster.bootstrap[0]) as channel:
        watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(methods.WATCH_METADATA)
        answers = watch(b"\x0a\x00" * 1_000_000, timeout=PATIENCE_S, metadata=with_key(tenant.api_key))
        with pytest.raises(grpc.RpcError) as refused:
            next(answers)
    assert "1000000 topics in one request" in (refused.value.details() or "")


def test_a_tenant_without_a_name_is_not_made(cluster: Brokers) -> None:
    outcome = call(
        cluster.spec.brokers[0].internal_address,
        internal.PUT_TENANT,
        admin_pb2.PutTenantRequest(),
        admin_pb2.Outcome,
        cluster.operator,
    )
    assert outcome.error == ErrorCode.INVALID_REQUEST
