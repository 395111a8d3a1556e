"""A tenant reads its own batches with their stamps, as stored; nobody else does, and nothing of it is metered."""

from collections.abc import Iterator

import grpc
import pytest

from chaos.replica_files import stored_batches
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicPartition
from penstock.contract.methods import AUTHORIZATION, READ_STAMPED
from penstock.contract.v1 import proof_pb2 as pb
from penstock.records.batch import check_batch
from penstock.records.stamp import STAMP_BYTES, stamp_seed, unpack_stamp
from tests.integration.brokers import Tenant
from tests.integration.metering.usage import Metered, metered
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    with metered(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def read_stamped(
    usage: Metered, broker: int, tenant: Tenant, request: pb.ReadStampedRequest
) -> pb.ReadStampedResponse:
    with grpc.insecure_channel(usage.cluster.spec.broker(broker).client_address) as channel:
        call = channel.unary_unary(
            READ_STAMPED,
            request_serializer=pb.ReadStampedRequest.SerializeToString,
            response_deserializer=pb.ReadStampedResponse.FromString,
        )
        response: pb.ReadStampedResponse = call(
            request, timeout=PATIENCE_S, metadata=((AUTHORIZATION, f"Bearer {tenant.api_key}"),)
        )
        return response


def filled(usage: Metered, tenant: Tenant) -> bytes:
    topic_id = usage.cluster.create_topic(tenant, "orders")
    with usage.cluster.client(tenant) as client, client.producer(linger_ms=0) as producer:
        for number in range(20):
            producer.send("orders", b"%d" % number).result(PATIENCE_S)
    return topic_id


def test_batches_and_stamps_come_as_they_are_stored(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_proof")
    topic_id = filled(usage, tenant)
    leader = usage.cluster.leader(topic_id)
    where = TopicPartition(topic_id, 0)  # type: ignore[arg-type]
    stored = stored_batches(usage.cluster.directory.log_directory(leader), where, 20)
    offset, stamps, batches = 5, b"", b""
    while offset < 15:
        request = pb.ReadStampedRequest(topic_id=topic_id, offset=offset, end_offset=15, bytes_max=200)
        response = read_stamped(usage, leader, tenant, request)
        assert (response.error, response.high_watermark, response.log_generation) == (0, 20, 1)
        assert 0 < len(response.batches) <= 200
        stamps += response.stamps
        batches += response.batches
        offset = unpack_stamp(response.stamps[-STAMP_BYTES:], stamp_seed(where)).end_offset
    assert stamps == b"".join(batch.stamp for batch in stored[5:15])
    assert batches == b"".join(batch.batch for batch in stored[5:15])
    assert check_batch(batches[: len(stored[5].batch)], from_producer=False).base_offset == 5


def test_another_tenant_is_told_of_no_such_partition(usage: Metered) -> None:
    topic_id = filled(usage, usage.cluster.tenant("tn_mine"))
    other = usage.cluster.tenant("tn_other")
    for broker in usage.cluster.ids:
        response = read_stamped(usage, broker, other, pb.ReadStampedRequest(topic_id=topic_id))
        assert (response.error, response.stamps, response.batches) == (ErrorCode.NOT_FOUND, b"", b"")


def test_what_is_not_held_and_what_is_not_led_are_refused(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_range")
    topic_id = filled(usage, tenant)
    leader = usage.cluster.leader(topic_id)
    beyond = read_stamped(usage, leader, tenant, pb.ReadStampedRequest(topic_id=topic_id, offset=21))
    assert beyond.error == ErrorCode.OFFSET_OUT_OF_RANGE
    follower = next(number for number in usage.cluster.ids if number != leader)
    asked = read_stamped(usage, follower, tenant, pb.ReadStampedRequest(topic_id=topic_id))
    assert asked.error == ErrorCode.NOT_LEADER
    end = read_stamped(usage, leader, tenant, pb.ReadStampedRequest(topic_id=topic_id, offset=20))
    assert (end.error, end.stamps) == (0, b"")
