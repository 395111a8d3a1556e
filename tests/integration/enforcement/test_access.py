"""Keys on open streams: idle ones end within a second of what ends their key, and a bound key sees its prefix only.

Each time is shown on a virtual clock too (tests/simulation/test_ended_keys.py). Here the best of a few tries counts: a
busy machine may hold one up, and brokers that are late are late each time.
"""

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import grpc
import pytest

from daemon import pepper_folder
from data_plane.contract.admin_client import AdminClient
from data_plane.contract.admin_pb2 import Binding, DescribeKeyUseResponse
from local.broker_config import PEPPER_VERSION, read_pepper
from local.provisioning import new_key
from penstock import Forbidden, NotFound
from penstock.client.settings import ConnectionSettings
from penstock.contract import methods
from penstock.contract.api_keys import parse_api_key
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicPartition
from penstock.contract.v1 import log_pb2 as pb
from penstock.records.batch import BATCH_HEADER_BYTES
from penstock.records.seal import Seal
from penstock.records.stamp import STAMP_BYTES
from penstock.rules.credentials import SCRAM_SALT_BYTES, Credential, make_credential, secret_hmac
from penstock.verification.stamped_reads import StampedBatches, StampedReads
from tests.integration.brokers import Brokers, Tenant
from tests.integration.raw_wire import ConsumeWire, ProduceWire, batch_of, with_key
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.processes

ENDS_WITHIN_MS = 1_000
TRIES = 5


class Key:
    """A key that a test changes as the control plane would."""

    def __init__(self, cluster: Brokers, tenant: Tenant) -> None:
        key = new_key()
        self._cluster = cluster
        self.holder = Tenant(name=tenant.name, api_key=key.reveal())
        self.credential: Credential = make_credential(
            key,
            pepper_version=PEPPER_VERSION,
            pepper=read_pepper(cluster.directory),
            salts=secrets.token_bytes(2 * SCRAM_SALT_BYTES),
        )

    def put(self, **changes: Any) -> int:
        """Put the key, wait until all brokers know; its principal number."""
        answer = self._cluster.admin.put_key(
            self.credential, tenant=self.holder.name, name="bound", **changes
        )
        self._cluster.admin.wait_until_seen(answer.outcome)
        return answer.principal


class Watch:
    """A metadata watch that nobody feeds."""

    def __init__(self, address: str, api_key: str) -> None:
        self._channel = grpc.insecure_channel(address)
        request = pb.WatchMetadataRequest(topics=["idle"]).SerializeToString()
        opened: Any = self._channel.unary_stream(methods.WATCH_METADATA)
        self._call = opened(request, timeout=PATIENCE_S, metadata=with_key(api_key))
        next(self._call)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self._call.cancel()
        self._channel.close()

    def end(self) -> tuple[ErrorCode, str]:
        try:
            for _ in self._call:
                pass
        except grpc.RpcError as error:
            trailing: dict[str, Any] = dict(error.trailing_metadata() or ())  # type: ignore[arg-type]
            return ErrorCode(int(trailing[methods.ERROR_CODE])), error.details() or ""
        raise AssertionError("the watch ended without an error")


def revoke(cluster: Brokers, key: Key) -> float:
    began = time.monotonic()
    cluster.admin.revoke_key(key.credential.key_id, generation=2)
    return began


def expire(cluster: Brokers, key: Key) -> float:
    """The expiry comes half a second after it is set, so that only the clock tells of it."""
    expires_at_ms = int(time.time() * 1000) + 500
    key.put(expires_at_ms=expires_at_ms, generation=2)
    return time.monotonic() + (expires_at_ms / 1000 - time.time())


def suspend(cluster: Brokers, key: Key) -> float:
    began = time.monotonic()
    cluster.admin.put_tenant(key.holder.name, generation=2, suspended=True)
    return began


@pytest.mark.parametrize(
    ("end", "code", "text"),
    [
        (revoke, ErrorCode.UNAUTHENTICATED, "was revoked or has expired"),
        (expire, ErrorCode.UNAUTHENTICATED, "was revoked or has expired"),
        (suspend, ErrorCode.FORBIDDEN, "is suspended"),
    ],
)
def test_idle_streams_end_within_a_second_on_every_broker(
    cluster: Brokers,
    tenant: Tenant,
    end: Callable[[Brokers, Key], float],
    code: ErrorCode,
    text: str,
    record_property: Callable[[str, object], None],
) -> None:
    slowest_ms: list[float] = []
    while not slowest_ms or (min(slowest_ms) >= ENDS_WITHIN_MS and len(slowest_ms) < TRIES):
        holder = cluster.tenant(f"{tenant.name}try{len(slowest_ms)}")
        slowest_ms.append(_slowest_end_ms(cluster, holder, end, code, text))
    record_property("slowest_ms", [round(each) for each in slowest_ms])
    assert min(slowest_ms) < ENDS_WITHIN_MS, slowest_ms


def _slowest_end_ms(
    cluster: Brokers, tenant: Tenant, end: Callable[[Brokers, Key], float], code: ErrorCode, text: str
) -> float:
    """How long after what ends their key the last of nine idle streams ends."""
    key = Key(cluster, tenant)
    key.put(generation=1)
    topic_id = cluster.create_topic(tenant, "idle", 3, assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    ends: list[tuple[float, ErrorCode | None, str]] = []
    with ExitStack() as streams:
        opened: list[ProduceWire | ConsumeWire | Watch] = []
        for number, broker in enumerate(cluster.spec.brokers):
            address, api_key = broker.client_address, key.holder.api_key
            producing = streams.enter_context(ProduceWire(address, api_key))
            assert producing.produce(topic_id, number, batch_of(b"before")).error == ErrorCode.OK
            consuming = streams.enter_context(ConsumeWire(address, api_key))
            consuming.open(topic_id, number, credit=1 << 20)
            consuming.pushes()
            opened += [producing, consuming, streams.enter_context(Watch(address, api_key))]

        def wait(stream: ProduceWire | ConsumeWire | Watch) -> None:
            ended = stream.end()
            code, message = ended if isinstance(ended, tuple) else (ended.code, ended.message)
            ends.append((time.monotonic(), code, message))

        waiting = [threading.Thread(target=wait, args=(stream,)) for stream in opened]
        for thread in waiting:
            thread.start()
        ended_at = end(cluster, key)
        for thread in waiting:
            thread.join(PATIENCE_S)
    assert len(ends) == len(opened)
    assert all(found is code and text in message for _, found, message in ends)
    slowest_ms = max(at - ended_at for at, _, _ in ends) * 1000
    print(f"{end.__name__}: {len(ends)} idle streams ended, the last {slowest_ms:.0f} ms after it")
    if end is expire:
        assert min(at - ended_at for at, _, _ in ends) * 1000 >= -50, "not before it expired"
    return slowest_ms


def test_a_suspended_tenant_is_refused_until_it_is_resumed(cluster: Brokers, tenant: Tenant) -> None:
    cluster.create_topic(tenant, "paused")
    cluster.admin.wait_until_seen(cluster.admin.put_tenant(tenant.name, generation=2, suspended=True))
    with cluster.client(tenant) as client, pytest.raises(Forbidden, match="is suspended"):
        client.topics()
    cluster.admin.wait_until_seen(cluster.admin.put_tenant(tenant.name, generation=3))
    with cluster.client(tenant) as client:
        client.producer().send("paused", b"again").result(PATIENCE_S)


def test_a_bound_key_sees_its_prefix_only_and_a_changed_binding_counts_at_once(
    cluster: Brokers, tenant: Tenant
) -> None:
    key = Key(cluster, tenant)
    principal = key.put(
        generation=1,
        bindings=[Binding(topic_prefix="in-"), Binding(topic_prefix="out-", operations=("consume",))],
    )
    for name in ("in-flights", "out-flights", "other"):
        cluster.create_topic(tenant, name)
    with cluster.client(tenant) as owner:
        owner.producer().send("out-flights", b"there").result(PATIENCE_S)
    with cluster.client(key.holder) as client:
        assert [topic.name for topic in client.topics()] == ["in-flights", "out-flights"]
        producer = client.producer(linger_ms=0)
        producer.send("in-flights", b"x").result(PATIENCE_S)
        with pytest.raises(Forbidden, match=r"'out-flights': no scope of the key .* grants produce"):
            producer.send("out-flights", b"x").result(PATIENCE_S)
        with pytest.raises(NotFound, match="'other' does not exist"):
            producer.send("other", b"x").result(PATIENCE_S)
        with client.consumer(["out-flights"]) as consumer:
            assert [message.value for message in consumer.poll(timeout=PATIENCE_S)] == [b"there"]
            again = key.put(generation=2, bindings=[Binding(topic_prefix="in-", operations=("consume",))])
            assert again == principal
            with pytest.raises(NotFound):
                consumer.poll(timeout=PATIENCE_S)
        with pytest.raises(Forbidden, match="grants produce"):
            producer.send("in-flights", b"y").result(PATIENCE_S)
        assert [topic.name for topic in client.topics()] == ["in-flights"]


def test_a_key_deletes_records_only_if_it_was_given_that_right(cluster: Brokers, tenant: Tenant) -> None:
    cluster.create_topic(tenant, "kept")
    writer, deleter = Key(cluster, tenant), Key(cluster, tenant)
    operations = ("describe", "produce", "consume")
    writer.put(generation=1, bindings=[Binding(topic_prefix="", operations=operations)])
    deleter.put(generation=1, bindings=[Binding(topic_prefix="ke", operations=("delete",))])
    with cluster.client(writer.holder) as client:
        for value in (b"one", b"two"):
            client.producer(linger_ms=0).send("kept", value).result(PATIENCE_S)
        with pytest.raises(Forbidden, match=r"no scope of the key .* grants delete"):
            client.delete_records({("kept", 0): 1})
    with cluster.client(deleter.holder) as client:
        with pytest.raises(Forbidden, match="grants produce"):
            client.producer(linger_ms=0).send("kept", b"three").result(PATIENCE_S)
        assert client.delete_records({("kept", 0): 1}) == {("kept", 0): 1}
    with cluster.client(writer.holder) as client, client.consumer(["kept"]) as consumer:
        assert [message.value for message in consumer.poll(timeout=PATIENCE_S)] == [b"two"]


def test_a_pepper_rotates_under_open_streams_and_no_key_is_refused(cluster: Brokers, tenant: Tenant) -> None:
    """As the control plane does it: brokers have the pepper, give the hash of a key that was shown, and get it."""
    one = Key(cluster, tenant)
    one.put(generation=1)
    folder = cluster.directory.pepper_folder
    assert pepper_folder.make(folder, 2)
    topic_id = cluster.create_topic(tenant, "peppered")
    addresses = [broker.client_address for broker in cluster.spec.brokers]

    def answer() -> DescribeKeyUseResponse:
        return cluster.admin.key_use(within_ms=600_000, after="", pepper_version=2)

    def every_broker_lets_it_in() -> None:
        for address in addresses:
            with ProduceWire(address, one.holder.api_key):
                Watch(address, one.holder.api_key).__exit__()

    with Watch(addresses[0], one.holder.api_key):
        wait_until(
            "every broker has the pepper",
            lambda: [pepper.version for pepper in answer().peppers] == [1, 2],
        )
        every_broker_lets_it_in()
        hashes = {key.key_id: key.secret_hmac.hex() for key in answer().keys if key.secret_hmac}
        secret = parse_api_key(one.holder.api_key).secret
        assert (
            hashes[one.credential.key_id]
            == secret_hmac(pepper_folder.read_one(folder, 2) or b"", secret).hex()
        )
        with ProduceWire(addresses[cluster.leader(topic_id) - 1], one.holder.api_key) as producing:
            one.credential = replace(
                one.credential, pepper_version=2, secret_hmac=hashes[one.credential.key_id]
            )
            one.put(generation=2)
            assert producing.produce(topic_id, 0, batch_of(b"x")).error == ErrorCode.OK
        every_broker_lets_it_in()
        assert set(answer().peppers_used) >= {2}


def test_use_of_a_key_is_told_by_every_broker_for_all(cluster: Brokers, tenant: Tenant) -> None:
    used, unused = Key(cluster, tenant), Key(cluster, tenant)
    for key in (used, unused):
        key.put(generation=1)
    topic_id = cluster.create_topic(tenant, "orders", 3, assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    with ProduceWire(cluster.spec.brokers[1].client_address, used.holder.api_key) as producing:
        assert producing.produce(topic_id, 1, batch_of(b"x")).error == ErrorCode.OK
    for broker in cluster.spec.brokers:
        with AdminClient([broker.internal_address], cluster.operator) as admin:
            ages_ms = {one.key_id: one.age_ms for one in admin.key_use(within_ms=600_000, after="").keys}
        assert ages_ms[used.credential.key_id] < 60_000
        assert unused.credential.key_id not in ages_ms


def test_a_verifying_key_reads_what_proves_an_invoice_and_no_record(cluster: Brokers, tenant: Tenant) -> None:
    topic_id = cluster.create_topic(tenant, "proven", segment_bytes=4_096)
    canary = b"canary-5b1f" * 40
    with cluster.client(tenant) as client, client.producer(linger_ms=0, compression="none") as producer:
        for _ in range(30):
            producer.send("proven", canary).result(PATIENCE_S)
    key = Key(cluster, tenant)
    key.put(generation=1, bindings=[Binding(topic_prefix="", resource="topic", operations=("verify",))])
    where = TopicPartition(topic_id, 0)

    def read(owner: Tenant) -> tuple[StampedBatches, list[Seal]]:
        settings = ConnectionSettings(bootstrap=tuple(cluster.bootstrap), api_key=owner.api_key)
        with StampedReads(settings) as reads:
            reads.topics()
            return reads.read(where, 0, 30), reads.seals(where)

    whole, seals = read(tenant)
    counted, seals_again = read(key.holder)
    assert seals_again == seals
    assert (counted.error, counted.headers_only, whole.headers_only) == (0, True, False)
    assert counted.stamps[: len(whole.stamps)] == whole.stamps and whole.stamps
    assert canary in whole.batches and canary not in counted.batches
    assert len(counted.batches) == len(counted.stamps) // STAMP_BYTES * BATCH_HEADER_BYTES
    assert counted.batches[:BATCH_HEADER_BYTES] == whole.batches[:BATCH_HEADER_BYTES]
    with cluster.client(key.holder) as client:
        assert [topic.name for topic in client.topics()] == ["proven"]
        with pytest.raises(Forbidden, match="grants consume"), client.consumer(["proven"]) as consumer:
            consumer.poll(timeout=PATIENCE_S)
        with pytest.raises(Forbidden, match="grants produce"), client.producer() as producer:
            producer.send("proven", b"x").result(PATIENCE_S)
