"""A key that may only produce sends batches that are not what their headers say: no reader of the topic is stopped."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
import penstock.asyncio
from data_plane.contract.admin_pb2 import Binding
from penstock import Message, SkippedBatch
from penstock.contract.limits import DECOMPRESSED_BATCH_BYTES_MAX, MIB
from penstock.records.batch import Compression
from penstock.records.compression import compress
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.enforcement.test_access import Key
from tests.integration.groups.test_surfaces import Surface
from tests.integration.raw_wire import ProduceWire, batch_of
from tests.unit.records.forging import forged, plain_block
from tests.waiting import PATIENCE_S
from web import browsing

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("unharmed")]

TOPIC = "lied-to"
LIES = [
    forged(plain_block(1_000), 1),
    forged(plain_block(1), 3),
    forged(b"\xff" * 50, 2),
    forged(b"junk", 2, codec=Compression.ZSTD),
    forged(
        bytes(compress(Compression.ZSTD, bytes(DECOMPRESSED_BATCH_BYTES_MAX + MIB))),
        1,
        codec=Compression.ZSTD,
    ),
]
GOOD = [b"one", b"two", b"three", b"four", b"five", b"six"]
SKIPPED = [(3, 4), (4, 7), (7, 9), (9, 11), (11, 12)]
END = 15


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """With groups."""
    with brokers(tmp_path_factory.mktemp("cluster"), internal_topics=True) as running:
        yield running


@pytest.fixture(scope="module")
def poisoned(cluster: Brokers, tenant: Tenant) -> Tenant:
    """Three good messages, all the lies, three good messages; all of it sent with a key that may not read."""
    key = Key(cluster, tenant)
    key.put(generation=1, bindings=[Binding(topic_prefix=TOPIC, operations=("produce",))])
    topic_id = cluster.create_topic(tenant, TOPIC)
    address = cluster.spec.broker(cluster.leader(topic_id)).client_address
    with ProduceWire(address, key.holder.api_key) as wire:
        batches = [batch_of(*GOOD[:3]), *LIES, batch_of(*GOOD[3:])]
        offsets = [wire.produce(topic_id, 0, batch).base_offset for batch in batches]
    assert offsets == [0, *(first for first, _ in SKIPPED), 12]
    return tenant


@pytest.fixture(params=[False, True], ids=["blocking", "asyncio"])
def surface(request: pytest.FixtureRequest) -> Iterator[Surface]:
    made = Surface(request.param)
    yield made
    made.end()


def read(surface: Surface, consumer: Any, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        more = surface(consumer.poll(timeout=PATIENCE_S))
        assert more, f"nothing more came behind {[message.value for message in found]}"
        found += more
    return found


def test_readers_go_on_behind_them(cluster: Brokers, poisoned: Tenant, surface: Surface) -> None:
    told: list[SkippedBatch] = []
    with surface.client(cluster, poisoned) as client:
        consumer = client.consumer([TOPIC], on_malformed=told.append)
        assert [message.value for message in read(surface, consumer, 6)] == GOOD
        assert [(batch.first_offset, batch.end_offset) for batch in told] == SKIPPED
        assert all(batch.reason.startswith("batch: ") for batch in told)
        assert consumer.skipped_messages == 9
        assert surface(consumer.position(TOPIC, 0)) == END
        surface(consumer.close())


def test_readers_of_whole_batches_go_on_behind_them(
    cluster: Brokers, poisoned: Tenant, surface: Surface
) -> None:
    with surface.client(cluster, poisoned) as client:
        consumer = client.consumer([TOPIC])
        values: list[bytes | None] = []
        while len(values) < 6:
            for batch in surface(consumer.poll_batches(timeout=5)):
                values += batch.values
        assert values == GOOD
        surface(consumer.close())


def test_groups_go_on_behind_them_and_commit(cluster: Brokers, poisoned: Tenant, surface: Surface) -> None:
    group = f"readers-{surface.awaited}"
    with surface.client(cluster, poisoned) as client:
        consumer = client.consumer(TOPIC, group=group, auto_commit=False)
        assert [message.value for message in read(surface, consumer, 6)] == GOOD
        surface(consumer.commit())
        assert surface(consumer.committed()) == {(TOPIC, 0): END}
        surface(consumer.close())


def test_a_group_that_waits_behind_one_has_committed_it(cluster: Brokers, tenant: Tenant) -> None:
    """Else it would seem to lag until the next good message."""
    topic_id = cluster.create_topic(tenant, "lies-last")
    address = cluster.spec.broker(cluster.leader(topic_id)).client_address
    with ProduceWire(address, tenant.api_key) as wire:
        for batch in (batch_of(*GOOD[:3]), *LIES):
            wire.produce(topic_id, 0, batch)
    with cluster.client(tenant) as client:
        consumer = client.consumer("lies-last", group="waiting", auto_commit_interval_ms=50)
        assert len(consumer.poll(timeout=PATIENCE_S)) == 3

        def committed() -> bool:
            assert consumer.poll(timeout=0.1) == []
            return client.group("waiting", timeout=PATIENCE_S).offsets == {("lies-last", 0): 12}

        cluster.wait_until("what it skipped is committed", committed)


def test_an_application_that_fails_while_it_is_told_is_told_again(
    cluster: Brokers, poisoned: Tenant, surface: Surface
) -> None:
    told: list[int] = []

    def fail_once(batch: SkippedBatch) -> None:
        told.append(batch.first_offset)
        if len(told) == 1:
            raise RuntimeError("not now")

    with surface.client(cluster, poisoned) as client:
        consumer = client.consumer([TOPIC], on_malformed=fail_once)
        assert len(read(surface, consumer, 3)) == 3
        with pytest.raises(RuntimeError, match="not now"):
            surface(consumer.poll(timeout=PATIENCE_S))
        assert surface(consumer.position(TOPIC, 0)) == 3
        assert [message.value for message in read(surface, consumer, 3)] == GOOD[3:]
        assert told == [3, *(first for first, _ in SKIPPED)]
        surface(consumer.close())


def test_an_asyncio_application_is_awaited(cluster: Brokers, poisoned: Tenant) -> None:
    surface = Surface(awaited=True)
    told: list[SkippedBatch] = []

    async def note(batch: SkippedBatch) -> None:
        told.append(batch)

    with surface.client(cluster, poisoned) as client:
        consumer = client.consumer([TOPIC], on_malformed=note)
        read(surface, consumer, 6)
        assert len(told) == len(SKIPPED)
    surface.end()


def test_a_reader_that_would_rather_stop_is_told_how_to_go_on(
    cluster: Brokers, poisoned: Tenant, surface: Surface
) -> None:
    with surface.client(cluster, poisoned) as client:
        consumer = client.consumer([TOPIC], malformed="stop")
        assert [message.value for message in surface(consumer.poll(timeout=PATIENCE_S))] == GOOD[:3]
        for offset, following in SKIPPED:
            with pytest.raises(penstock.MalformedBatch) as told:
                surface(consumer.poll(timeout=PATIENCE_S))
            assert told.value.message.startswith(f"{TOPIC}-0: at offset {offset}: batch: ")
            assert told.value.message.endswith(f"; seek to offset {following} to go on behind it")
            surface(consumer.seek(TOPIC, 0, offset=following))
        assert [message.value for message in surface(consumer.poll(timeout=PATIENCE_S))] == GOOD[3:]
        surface(consumer.close())


def test_the_console_shows_the_messages_and_says_what_it_leaves_out(
    cluster: Brokers, poisoned: Tenant
) -> None:
    with cluster.client(poisoned) as client:
        with browsing.Reader(client, TOPIC, [0]) as reader:
            page = browsing.newest(reader, 20)
        with browsing.Reader(client, TOPIC, [0]) as reader:
            middle = browsing.since(reader, {0: 4}, None, 20)
    assert sorted(message.offset for message in page.messages) == [0, 1, 2, 12, 13, 14]
    assert [(batch.first_offset, batch.end_offset) for batch in page.skipped] == SKIPPED
    assert not page.late
    assert [message.offset for message in middle.messages] == [12, 13, 14]
    assert [batch.first_offset for batch in middle.skipped] == [4, 7, 9, 11]


@pytest.mark.parametrize("options", [(), ("--group", "shell"), ("--json",)], ids=["alone", "group", "json"])
def test_the_command_line_shows_the_messages_and_says_what_it_leaves_out(
    cluster: Brokers, poisoned: Tenant, tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "consume", TOPIC, *options],
        env={
            **os.environ,
            "PENSTOCK_BOOTSTRAP": ",".join(cluster.bootstrap),
            "PENSTOCK_API_KEY": poisoned.api_key,
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    if "--json" in options:
        assert [json.loads(line)["value"] for line in lines] == [value.decode() for value in GOOD]
    else:
        assert [line.split()[-1] for line in lines] == [value.decode() for value in GOOD]
    told = done.stderr.splitlines()
    assert len(told) == len(SKIPPED), done.stderr
    for line, (first, end) in zip(told, SKIPPED, strict=True):
        assert line.startswith(f"penstock: {TOPIC}-0: offsets {first} to {end - 1} are no messages: batch: ")
