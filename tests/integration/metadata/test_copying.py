"""Metadata moves between stores: everything but sessions, in order, above every revision that was ever given."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from data_plane.broker import metadata, sqlite_schema
from data_plane.broker.etcd_store import EtcdStore
from data_plane.broker.sqlite_store import SqliteStore, StoreFault
from data_plane.etcd.endpoints import EtcdConfig
from data_plane.metadata import broker_records, model
from data_plane.metadata.copying import (
    EPOCHS_AHEAD,
    CopyRefused,
    Export,
    confirm,
    decode_export,
    encode_export,
    fill,
    take_export,
)
from data_plane.metadata.lineage import LINEAGE_KEY, LineageRecord, Witness, refusal
from data_plane.metadata.port import Compacted, Delete, MetaStore, Put
from penstock.contract.ids import NO_BROKER, BrokerId
from tests.certificates import settings, write

from ..etcd_servers import EtcdServers, etcd_servers

pytestmark = pytest.mark.processes

KINDS = ("sqlite", "etcd")
_names = count()

Opener = Callable[[str, int], Coroutine[Any, Any, MetaStore]]


@pytest.fixture(scope="module")
def servers() -> Iterator[EtcdServers]:
    with etcd_servers() as running:
        yield running


@pytest.fixture
def opened(servers: EtcdServers, tmp_path: Path) -> Opener:
    """Opens an empty store of a kind whose revisions begin at a base."""

    async def open_one(kind: str, base: int = 0) -> MetaStore:
        if kind == "etcd":
            return EtcdStore(EtcdConfig(endpoints=servers.endpoints), f"copy-{next(_names)}", base=base)
        path = tmp_path / f"{next(_names)}.db"
        sqlite_schema.begin_at(path, base)
        return await SqliteStore.open(path)

    return open_one


async def written(store: MetaStore) -> None:
    """A store in use: keys changed again, keys deleted, a session's key."""
    session = await store.session(60_000)
    await store.txn(
        [], [Put(broker_records.CLUSTER_KEY, broker_records.ClusterRecord(cluster_id="c1").encode())]
    )
    await store.txn([], [Put("/b", b"\xff\0 any"), Put("/a", b"1")])
    await store.txn([], [Put(f"/many/{n:03d}", b"%d" % n) for n in range(100)])
    await store.txn([], [Put("/live/000001", b"x", session.session_id), Delete("/many/000")])
    await store.txn([], [Put("/a", b"2")])


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_a_copy_holds_everything_but_sessions_in_order_above_all_old_revisions(
    opened: Opener, source: str, target: str
) -> None:
    async def scenario() -> None:
        old = await opened(source, 0)
        await written(old)
        export = decode_export(encode_export(await take_export(old)))
        new = await opened(target, export.revision)
        after = await fill(new, export, "line-2")

        before = {item.key: item for item in (await old.range("/")).items if not item.session_id}
        listing = await new.range("/")
        held = {item.key: item for item in listing.items}
        lineage = LineageRecord.decode(held.pop(LINEAGE_KEY).value)
        assert lineage == LineageRecord(lineage_id="line-2", follows=(("", export.revision),))
        assert {key: item.value for key, item in held.items()} == {key: i.value for key, i in before.items()}
        order = sorted(before, key=lambda key: before[key].mod_revision)
        revisions = [held[key].mod_revision for key in order]
        assert revisions == sorted(revisions)
        assert min(revisions) > export.revision
        assert listing.revision == after
        assert (await new.txn([], [Put("/a", b"3")])).revision == after + 1
        watch = new.watch("/", export.revision)
        assert (await anext(watch)).revision == export.revision + 1
        with pytest.raises(Compacted):
            await anext(new.watch("/", export.revision - 1))
        seen = Witness(revision=export.revision, registered=export.revision)
        assert refusal(seen, lineage, revision=after, registration_known=held["/a"].mod_revision) == ""
        await old.close()
        await new.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", KINDS)
def test_only_an_empty_store_that_begins_high_enough_is_filled(opened: Opener, kind: str) -> None:
    async def scenario() -> None:
        store = await opened(kind, 0)
        export = Export(cluster_id="c1", revision=7, lineage=LineageRecord(), items=())
        with pytest.raises(CopyRefused, match="begins at revision 0, the export ends at 7"):
            await fill(store, export, "x")
        await store.txn([], [Put("/a", b"1")])
        with pytest.raises(CopyRefused, match="holds 1 keys; import needs an empty one"):
            await fill(store, export, "x")
        await store.close()

    asyncio.run(scenario())


def test_a_file_that_was_cut_or_changed_is_refused(opened: Opener) -> None:
    async def exported() -> list[str]:
        store = await opened("sqlite", 0)
        await written(store)
        lines = list(encode_export(await take_export(store)))
        await store.close()
        return lines

    lines = asyncio.run(exported())
    for damaged in (
        [],
        ["no json"],
        ['{"a": 1}\n'],
        lines[:-1],
        [*lines[:3], *lines[4:]],
        [lines[0], lines[1].replace('"key": "/', '"key": "/x'), *lines[2:]],
    ):
        with pytest.raises(CopyRefused):
            decode_export(damaged)
    assert len(decode_export(lines).items) == len(lines) - 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_confirmed_store_leads_nothing_and_gives_no_number_twice(opened: Opener, kind: str) -> None:
    record = model.PartitionRecord(
        partition=0,
        replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
        replica_generations=(0, 0, 0),
        leader=BrokerId(2),
        leader_epoch=5,
        in_sync=(BrokerId(2), BrokerId(3)),
        eligible=(BrokerId(1),),
        partition_epoch=9,
    )
    key = model.block_key(b"t" * 16, 0)

    async def scenario() -> None:
        store = await opened(kind, 0)
        session = await store.session(60_000)
        await store.txn([], [Put(key, model.encode_block({0: record}))])
        await store.txn([], [Put(model.NEXT_PRODUCER_ID_KEY, b"41")])
        await store.txn([], [Put(broker_records.live_key(2), b"{}", session.session_id)])
        with pytest.raises(CopyRefused, match="brokers 2 are registered"):
            await confirm(store, "line-2", "me: restored")
        await session.end()
        assert await confirm(store, "line-2", "me: restored") == 1

        held = {item.key: item.value for item in (await store.range("/")).items}
        after = model.decode_block(held[key])[0]
        assert after.leader == NO_BROKER
        assert (after.in_sync, after.eligible, after.last_known) == ((), (), record.replicas)
        assert after.leader_epoch == 5 + EPOCHS_AHEAD
        assert after.partition_epoch == 9 + EPOCHS_AHEAD
        assert int(held[model.NEXT_PRODUCER_ID_KEY]) > 1_000_000
        lineage = LineageRecord.decode(held[LINEAGE_KEY])
        seen_more = Witness(lineage_id="", revision=10_000, registered=9_000)
        assert refusal(seen_more, lineage, revision=8, registration_known=3) == ""
        await store.close()

    asyncio.run(scenario())


def test_the_commands_move_a_store_and_say_what_they_refuse(
    servers: EtcdServers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def configured(name: str, store: object) -> str:
        who = settings(write(tmp_path / "identity", "broker-1"))
        file = tmp_path / name
        common = {"broker_id": 1, "cluster_id": "c1", "data": str(tmp_path), "pepper_files": {"1": "/none"}}
        file.write_text(json.dumps({**common, "metadata": store, "identity": who}))
        return str(file)

    async def use() -> None:
        store = await SqliteStore.open(tmp_path / "old.db")
        await written(store)
        await store.close()

    asyncio.run(use())
    old = configured("old.json", str(tmp_path / "old.db"))
    etcd = {"kind": "etcd", "endpoints": list(servers.endpoints), "namespace": f"copy-{next(_names)}"}
    new, back = configured("new.json", etcd), configured("back.json", str(tmp_path / "back.db"))
    file = str(tmp_path / "export")
    assert metadata.main(["export", "--config", old, "--to", file]) == 0
    assert (tmp_path / "export").stat().st_mode & 0o077 == 0
    assert metadata.main(["import", "--config", new, "--from", file]) == 0
    assert metadata.main(["import", "--config", new, "--from", file]) == 1
    assert "import needs an empty one" in capsys.readouterr().err
    assert metadata.main(["export", "--config", new, "--to", file + "2"]) == 0
    assert metadata.main(["import", "--config", back, "--from", file + "2"]) == 0
    assert metadata.main(["import", "--config", back, "--from", file + "2"]) == 1
    assert "is not empty; name a file that is not there yet" in capsys.readouterr().err
    assert metadata.main(["export", "--config", old, "--to", file]) == 1
    assert metadata.main(["confirm", "--config", back, "--why", "drill"]) == 0
    assert "start every broker" in capsys.readouterr().out
    with pytest.raises(StoreFault):
        sqlite_schema.begin_at(tmp_path / "back.db", 5)
