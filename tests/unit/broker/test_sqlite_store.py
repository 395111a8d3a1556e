"""What only the embedded store promises: several processes, kills, restarts, damage, and a file that
fails."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from data_plane.broker import sqlite_notices, sqlite_reader, sqlite_schema, sqlite_writer
from data_plane.broker.sqlite_group import Plan
from data_plane.broker.sqlite_reader import PENDING_REVISIONS_MAX
from data_plane.broker.sqlite_store import SqliteStore, StoreFault
from data_plane.broker.sqlite_writer import CHECKPOINT_COMMITS
from data_plane.metadata.port import (
    Compacted,
    Compare,
    MetaStore,
    OutcomeUnknown,
    Put,
    SessionLost,
    StoreUnavailable,
)
from tests.waiting import PATIENCE_S

WORKER = Path(__file__).with_name("store_worker.py")


def run(path: Path, scenario: Callable[[SqliteStore], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        store = await SqliteStore.open(path, **options)
        try:
            async with asyncio.timeout(60):
                await scenario(store)
        finally:
            await store.close()

    asyncio.run(whole())


@contextmanager
def worker(task: str, path: Path, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, str(WORKER), task, str(path), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def lines(process: "subprocess.Popen[str]") -> list[str]:
    assert process.stdout is not None
    return process.stdout.read().splitlines()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "metadata.db"


# -- processes ---------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_three_processes_count_together_without_losing_one(path: Path) -> None:
    with (
        worker("increment", path, 60) as a,
        worker("increment", path, 60) as b,
        worker("increment", path, 60) as c,
    ):
        told = [tuple(map(int, text.split())) for process in (a, b, c) for text in lines(process)]
        assert [process.wait(PATIENCE_S) for process in (a, b, c)] == [0, 0, 0]
    assert sorted(told) == [(number, number) for number in range(1, 181)]


@pytest.mark.processes
def test_a_killed_process_loses_nothing_it_was_answered_and_stops_nobody(path: Path) -> None:
    told: list[int] = []
    with worker("increment", path, 300) as survivor:
        for rounds in range(4):
            with worker("increment", path, 100_000) as victim:
                for _ in range(5 + 7 * rounds):
                    told.append(int(line(victim).split()[0]))
        told += [int(text.split()[0]) for text in lines(survivor)]
        assert survivor.wait(PATIENCE_S) == 0
    assert len(set(told)) == len(told)

    async def scenario(store: SqliteStore) -> None:
        listing = await store.range("/n")
        assert listing.revision >= max(told)
        assert int(listing.items[0].value) == listing.revision
        watch = store.watch("/", 0)
        seen = [await anext(watch) for _ in range(listing.revision)]
        assert [batch.revision for batch in seen] == list(range(1, listing.revision + 1))

    run(path, scenario)


@pytest.mark.processes
def test_a_process_that_sits_on_the_write_lock_holds_up_no_reader_and_is_named(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await store.txn([], [Put("/a", b"1")])
        with worker("hold", path) as holder:
            assert await asyncio.to_thread(line, holder) == "held"
            with pytest.raises(StoreUnavailable, match="held by another process"):
                await store.txn([], [Put("/a", b"2")])
            assert (await store.range("/a")).items[0].value == b"1"
            assert (await anext(store.watch("/", 0))).revision == 1
        assert (await store.txn([], [Put("/a", b"3")])).revision == 2

    run(path, scenario, busy_ms=300)


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_ends_by_its_own_fault_fails_the_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(seconds: float) -> None:
        raise OSError("no sleep")

    async def scenario(store: SqliteStore) -> None:
        await store.txn([], [Put("/a", b"1")])
        with worker("hold", path) as holder:
            assert await asyncio.to_thread(line, holder) == "held"
            with monkeypatch.context() as broken:
                broken.setattr("data_plane.broker.sqlite_writer.time.sleep", fault)
                waiting = asyncio.ensure_future(store.txn([], [Put("/a", b"2")]))
                fault_seen = await asyncio.wait_for(store.failed(), PATIENCE_S)
            assert "no sleep" in str(fault_seen)
            waiting.cancel()

    run(path, scenario, busy_ms=10_000)


@pytest.mark.processes
def test_a_file_that_cannot_grow_refuses_what_has_no_room_keeps_sessions_and_recovers(path: Path) -> None:
    with worker("full", path) as process:
        told = lines(process)
        assert process.wait(PATIENCE_S) == 0
    assert told[0].startswith(f"metadata store {path} has no disk space: SQLITE_")
    assert told[0].endswith("; free some")
    assert told[1:] == ["kept alive True", "space again 1"]

    async def scenario(store: SqliteStore) -> None:
        listing = await store.range("/a")
        assert listing.items[0].value == b"2"
        assert (await store.txn([], [Put("/a", b"3")])).revision == listing.revision + 1

    run(path, scenario)


def _sqlite_error(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("planted")
    error.sqlite_errorcode, error.sqlite_errorname = getattr(sqlite3, name), name
    return error


def _failing(planted: list[str], work: Callable[..., Any]) -> Callable[..., Any]:
    """`work` that fails with these errors first."""

    def fail_first(*given: Any) -> Any:
        if planted:
            raise _sqlite_error(planted.pop(0))
        return work(*given)

    return fail_first


def test_a_commit_goes_on_in_the_log_that_began_again_although_nothing_can_be_reserved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store: SqliteStore) -> None:
        await store.txn([], [Put("/a", b"1")])
        monkeypatch.setattr(Plan, "commit", _failing(["SQLITE_FULL"], Plan.commit))
        monkeypatch.setattr(sqlite_writer, "reserve", _failing(["SQLITE_FULL"] * 9, sqlite_schema.reserve))
        assert (await store.txn([], [Put("/a", b"2")])).succeeded

    run(path, scenario)


def test_an_attempt_that_may_come_back_is_not_called_refused_because_the_next_one_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store: SqliteStore) -> None:
        await store.txn([], [Put("/a", b"1")])
        errors = ["SQLITE_IOERR_SHMSIZE", *["SQLITE_FULL"] * 99]
        monkeypatch.setattr(Plan, "commit", _failing(errors, Plan.commit))
        with pytest.raises(OutcomeUnknown, match="SQLITE_FULL"):
            await store.txn([], [Put("/a", b"2")])

    run(path, scenario, busy_ms=100)


# -- notices of commits --------------------------------------------------------------------------------------

_NEVER_MS = 3_600_000.0
"""Between two looks: what is seen was announced."""


@pytest.mark.processes
def test_a_commit_of_another_process_is_seen_without_a_look(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_reader, "UNANNOUNCED_MS", _NEVER_MS)

    async def scenario(store: SqliteStore) -> None:
        watch = store.watch("/", 0)
        with worker("increment", path, 3) as other:
            assert [(await anext(watch)).revision for _ in range(3)] == [1, 2, 3]
            assert await asyncio.to_thread(other.wait, PATIENCE_S) == 0
        assert (await store.txn([], [Put("/a", b"1")])).revision == 4
        assert (await anext(watch)).revision == 4

    run(path, scenario)


def test_a_commit_that_was_not_announced_is_seen_at_the_next_look(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        watch = store.watch("/", 0)
        assert (await store.txn([], [Put("/a", b"1")])).revision == 1
        await anext(watch)
        with closing(sqlite_schema.connect(path)) as silent:
            # In one transaction: a look between two would find a revision without its event, and never ask again.
            silent.execute("BEGIN IMMEDIATE")
            silent.execute("UPDATE meta SET revision = 2")
            silent.execute("INSERT INTO events VALUES (2, 0, '/a', x'32')")
            silent.execute("COMMIT")
        assert (await anext(watch)).revision == 2

    run(path, scenario)


def test_a_machine_without_inotify_instances_looks_for_commits(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_notices, "_watch", lambda path: -1)
    monkeypatch.setattr(sqlite_reader, "UNANNOUNCED_MS", _NEVER_MS)

    async def scenario(store: SqliteStore) -> None:
        other = await SqliteStore.open(path)
        watch = store.watch("/", 0)
        assert (await other.txn([], [Put("/a", b"1")])).revision == 1
        assert (await anext(watch)).revision == 1
        await other.close()

    run(path, scenario)


# -- restarts ----------------------------------------------------------------------------------------------


def test_revisions_go_on_after_a_restart(path: Path) -> None:
    async def first(store: SqliteStore) -> None:
        assert (await store.txn([], [Put("/a", b"1")])).revision == 1

    async def second(store: SqliteStore) -> None:
        assert (await store.range("/a")).items[0].mod_revision == 1
        assert (await store.txn([Compare("/a", 1)], [Put("/a", b"2")])).revision == 2
        watch = store.watch("/", 0)
        assert [(await anext(watch)).revision for _ in range(2)] == [1, 2]

    run(path, first)
    run(path, second)


def test_a_session_outlives_its_process_until_its_deadline(path: Path) -> None:
    kept: list[int] = []

    async def first(store: SqliteStore) -> None:
        session = await store.session(60_000)
        await store.txn([], [Put("/live/1", b"x", session.session_id)])
        kept.append(session.session_id)

    async def second(store: SqliteStore) -> None:
        assert (await store.range("/live/")).items[0].session_id == kept[0]
        assert (await store.session(60_000)).session_id > kept[0]

    run(path, first)
    run(path, second)


def test_sessions_of_an_earlier_boot_are_over_whatever_their_deadline_says(path: Path) -> None:
    async def before(store: SqliteStore) -> None:
        session = await store.session(60_000)
        await store.txn([], [Put("/live/1", b"x", session.session_id)])

    async def after(store: SqliteStore) -> None:
        batch = await anext(store.watch("/live/", 1))
        assert batch.events[0].value is None

    run(path, before, boot_id="one", monotonic_ms=lambda: 10**9)
    run(path, after, boot_id="two", monotonic_ms=lambda: 0)


def test_any_process_ends_a_session_whose_owner_is_silent(path: Path) -> None:
    now_ms = [0]

    async def scenario(other: SqliteStore) -> None:
        owner = await SqliteStore.open(path, monotonic_ms=lambda: now_ms[0], boot_id="boot")
        session = await owner.session(5_000)
        await owner.txn([], [Put("/live/1", b"x", session.session_id)])
        await owner.close()
        now_ms[0] = 5_001
        batch = await anext(other.watch("/live/", 1))
        assert batch.events[0].value is None
        with pytest.raises(SessionLost):
            await other.txn([], [Put("/live/1", b"x", session.session_id)])

    run(path, scenario, monotonic_ms=lambda: now_ms[0], boot_id="boot")


def test_a_session_past_its_deadline_cannot_be_revived_even_if_nobody_ended_it_yet(path: Path) -> None:
    now_ms = [0]

    async def scenario(store: SqliteStore) -> None:
        session = await store.session(5_000)
        now_ms[0] = 5_000
        with pytest.raises(SessionLost):
            await session.keep_alive()

    run(path, scenario, monotonic_ms=lambda: now_ms[0], boot_id="boot")


# -- the file ----------------------------------------------------------------------------------------------


def test_every_commit_is_synced_and_checkpoints_are_not_automatic(path: Path) -> None:
    sqlite_schema.prepare(path)
    with closing(sqlite_schema.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert connection.execute("PRAGMA wal_autocheckpoint").fetchone()[0] == 0
        assert connection.execute("PRAGMA mmap_size").fetchone()[0] == 0


def test_the_write_ahead_log_is_checkpointed_and_stays_small(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        async def put(number: int) -> None:
            await store.txn([], [Put(f"/k/{number % 50}", b"x" * 300)])

        for number in range(6 * CHECKPOINT_COMMITS):
            await put(number)
        log_bytes = Path(f"{path}-wal").stat().st_size  # noqa: ASYNC240 - nothing else runs here
        assert log_bytes < 3 * CHECKPOINT_COMMITS * 8 * 4096
        assert path.stat().st_size > 100_000  # noqa: ASYNC240

    run(path, scenario)


def test_only_its_user_may_read_the_file(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await store.txn([], [Put("/keys/k", b"verifier")])
        for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600

    run(path, scenario)


def test_several_threads_may_create_the_file_at_once(path: Path) -> None:
    failures: list[BaseException] = []

    def prepare() -> None:
        try:
            sqlite_schema.prepare(path)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=prepare) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_damaged_file_is_refused_at_the_start(path: Path) -> None:
    async def fill(store: SqliteStore) -> None:
        for number in range(300):
            await store.txn([], [Put(f"/k/{number}", b"x" * 200)])

    run(path, fill)
    content = bytearray(path.read_bytes())
    page = content.index(b"/k/150") // 4096 * 4096
    content[page : page + 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    with pytest.raises(StoreFault, match=r"metadata\.db: .*restore it from a backup"):
        sqlite_schema.prepare(path)


def test_another_programs_file_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.commit()
    with pytest.raises(StoreFault, match="another program"):
        sqlite_schema.prepare(path)
    with closing(sqlite3.connect(path)) as connection:
        assert [row[0] for row in connection.execute("SELECT name FROM sqlite_master")] == ["theirs"]


def test_garbage_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(os.urandom(20_000))
    with pytest.raises(StoreFault, match="SQLITE_NOTADB"):
        sqlite_schema.prepare(path)


def test_a_newer_format_is_refused(path: Path) -> None:
    sqlite_schema.prepare(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreFault, match="format 99"):
        sqlite_schema.prepare(path)


def test_a_network_file_system_is_refused(path: Path, tmp_path: Path) -> None:
    mounts = {"/": "ext4", str(tmp_path.resolve()): "nfs4"}
    with pytest.raises(StoreFault, match="nfs4"):
        sqlite_schema.refuse_network_filesystem(path.parent, mounts)
    sqlite_schema.refuse_network_filesystem(path.parent, {"/": "ext4"})


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFault, match="make the directory writable"):
        sqlite_schema.prepare(tmp_path / "file" / "metadata.db")


# -- groups, history, slow readers --------------------------------------------------------------------------


def test_what_is_asked_at_once_shares_commits(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await asyncio.gather(*(store.txn([], [Put(f"/k/{n}", b"x")]) for n in range(1_000)))
        assert store.commits < 100
        assert (await store.range("/k/")).revision == 1_000

    run(path, scenario)


def test_old_events_are_trimmed_and_the_rest_can_be_watched(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        for number in range(150):
            await store.txn([], [Put("/n", b"%d" % number)])
        with pytest.raises(Compacted):
            await anext(store.watch("/", 0))
        watch = store.watch("/", 100)
        assert [(await anext(watch)).revision for _ in range(50)] == list(range(101, 151))

    run(path, scenario, retained_revisions=50)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone()[0] <= 55


def test_a_watch_nobody_reads_holds_a_bounded_number_of_revisions(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        count = 2 * PENDING_REVISIONS_MAX
        watch = store.watch("/", 0)
        for start in range(0, count, 500):
            await asyncio.gather(*(store.txn([], [Put("/n", b"%d" % n)]) for n in range(start, start + 500)))
        await store.range("/")
        assert watch.delivered <= PENDING_REVISIONS_MAX + 500
        seen = [(await anext(watch)).revision for _ in range(count)]
        assert seen == list(range(1, count + 1))

    run(path, scenario)


def test_a_watch_that_was_dropped_is_forgotten(path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        watch: Any = store.watch("/", 0)
        for _ in range(19):
            watch = store.watch("/", 0)
        await store.txn([], [Put("/a", b"1")])
        await anext(watch)
        assert store.watching <= 1

    run(path, scenario)


def test_a_store_whose_loop_is_gone_ends_quietly(path: Path) -> None:
    async def leave() -> MetaStore:
        store = await SqliteStore.open(path)
        store.watch("/", 0)
        return store

    async def write(other: SqliteStore) -> None:
        await other.txn([], [Put("/a", b"1")])

    store = asyncio.run(leave())
    run(path, write)
    asyncio.run(store.close())
