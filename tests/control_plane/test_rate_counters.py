"""Counts of limits: one over all processes, in a file or in Redis; forgotten in time; never in anybody's way."""

import hashlib
import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from django.test import Client

from control_plane import rate_counters
from control_plane.rate_counters import (
    APART_S,
    PRUNED_EVERY_S,
    REMEMBERED_MAX,
    Counters,
    FileStore,
    OwnStore,
    RedisStore,
    Unreachable,
)
from control_plane.rest import throttles
from local.free_ports import HOST, free_port
from tests.control_plane.world import call
from tests.integration import servers
from tests.integration.installed import ROOT
from tests.waiting import PATIENCE_S
from web import rate_limit

SPEND = """
import json, sys
from pathlib import Path
from control_plane import rate_counters
from control_plane.rate_counters import Counters, FileStore, RedisStore
rate_counters.STORE_TIMEOUT_S = 30  # on a busy machine nobody is to count for itself
where = sys.argv[1]
counters = Counters(RedisStore(where) if where.startswith("redis:") else FileStore(Path(where)))
sys.stdin.readline()
print(sum(counters.spend("anna", most=100, window_s=600).allowed for _ in range(150)))
"""


class Hand:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Telling:
    """A store that notes what it was asked for, and is away while it is told so."""

    def __init__(self, inner: OwnStore) -> None:
        self.inner = inner
        self.asked = 0
        self.away = False

    def count(self, name: str, window_s: float) -> tuple[int, float]:
        self.asked += 1
        if self.away:
            raise Unreachable("away")
        return self.inner.count(name, window_s)

    def counted(self, name: str) -> int:
        if self.away:
            raise Unreachable("away")
        return self.inner.counted(name)

    def take(self, name: str, seconds: float, most_s: float) -> float:
        if self.away:
            raise Unreachable("away")
        return self.inner.take(name, seconds, most_s)

    def forget_all(self) -> None:
        self.inner.forget_all()


@pytest.fixture(params=["file", "redis"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield str(tmp_path / "counters.sqlite")
        return
    with servers.redis() as redis:
        yield f"redis://{HOST}:{redis.port}/0"


@pytest.mark.processes
def test_two_processes_share_one_limit(where: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SPEND, where],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        allowed = [json.loads(process.communicate(timeout=PATIENCE_S)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait(PATIENCE_S)
    assert sum(allowed) == 100, allowed
    store = RedisStore(where) if where.startswith("redis:") else FileStore(Path(where))
    events, left_s = store.count("anna", 600)
    assert events <= 103 and 0 < left_s <= 600, "a process that was refused once does not ask again"
    store.forget_all()
    assert store.count("anna", 600)[0] == 1
    assert store.take("bert", 2.5, 60) == pytest.approx(2.5, abs=0.01)
    again = type(store)(where if where.startswith("redis:") else Path(where))  # type: ignore[arg-type]
    assert 3 < again.take("bert", 1.0, 60) <= 3.5, "another process adds to it, and it falls with the time"
    assert again.take("bert", 600.0, 60) == pytest.approx(60, abs=0.01)


def test_a_count_begins_anew_when_its_time_is_over(tmp_path: Path) -> None:
    clock = Hand()
    counters = Counters(FileStore(tmp_path / "counters.sqlite", clock), clock)
    answers = [counters.spend("anna", most=2, window_s=60) for _ in range(3)]
    assert [one.allowed for one in answers] == [True, True, False]
    clock.now += 20
    assert counters.spend("anna", most=2, window_s=60).left_s == pytest.approx(40)
    assert counters.spend("bert", most=2, window_s=60).allowed
    clock.now += 40
    assert counters.spend("anna", most=2, window_s=60).allowed


def test_what_is_ahead_falls_with_the_time_and_is_bounded_when_a_clock_is_set_back(tmp_path: Path) -> None:
    clock = Hand()
    for store in (FileStore(tmp_path / "counters.sqlite", clock), OwnStore(clock)):
        assert store.take("anna", 3.0, 60) == pytest.approx(3)
        clock.now += 2
        assert store.take("anna", 0.5, 60) == pytest.approx(1.5)
        clock.now += 9
        assert store.take("anna", 0.5, 60) == pytest.approx(0.5), "what was not used is not saved"
        clock.now -= 900
        assert store.take("anna", 0.5, 60) == pytest.approx(60)


def test_a_clock_that_was_set_back_shuts_nobody_out(tmp_path: Path) -> None:
    clock = Hand()
    store = FileStore(tmp_path / "counters.sqlite", clock)
    assert [store.count("anna", 60)[0] for _ in range(3)] == [1, 2, 3]
    clock.now -= 900
    assert store.count("anna", 60) == (1, pytest.approx(60))


def test_an_event_whose_process_was_slow_is_one_more_of_the_count_that_another_has_begun(
    tmp_path: Path,
) -> None:
    clock = Hand()
    store = FileStore(tmp_path / "counters.sqlite", clock)
    assert [store.count("anna", 60)[0] for _ in range(3)] == [1, 2, 3]
    clock.now -= 2
    assert store.count("anna", 60)[0] == 4


def test_however_many_are_refused_the_store_is_asked_for_one_of_them() -> None:
    clock = Hand()
    store = Telling(OwnStore(clock))
    counters = Counters(store, clock)
    allowed = [counters.spend("anna", most=5, window_s=60).allowed for _ in range(1_000)]
    assert sum(allowed) == 5 and store.asked == 6


def test_without_the_shared_store_each_process_counts_for_itself_and_comes_back() -> None:
    clock = Hand()
    store = Telling(OwnStore(clock))
    counters = Counters(store, clock)
    store.away = True
    allowed = [counters.spend("anna", most=3, window_s=60).allowed for _ in range(5)]
    assert allowed == [True] * 3 + [False] * 2 and store.asked == 1, "asked once, not at each request"
    store.away = False
    clock.now += APART_S
    assert counters.spend("bert", most=3, window_s=60).allowed and store.asked == 2


def test_what_is_ahead_stays_so_when_the_shared_store_goes_and_when_it_comes_back() -> None:
    clock = Hand()
    store = Telling(OwnStore(clock))
    counters = Counters(store, clock)
    assert counters.take("anna", 20.0, most_s=60) == 20
    store.away = True
    assert counters.take("anna", 1.0, most_s=60) == 21, "a flood that locks the store begins nothing anew"
    clock.now += APART_S
    store.away = False
    assert counters.take("anna", 1.0, most_s=60) == 17, "the store has not heard of all"
    store.inner.take("anna", 10.0, 60)
    assert counters.take("anna", 1.0, most_s=60) == 27, "what other processes took counts too"


def test_a_file_that_is_damaged_and_a_redis_that_is_away_are_unreachable(tmp_path: Path) -> None:
    broken = tmp_path / "counters.sqlite"
    broken.write_bytes(b"not a database" * 100)
    with pytest.raises(Unreachable):
        FileStore(broken).count("anna", 60)
    port = free_port(set())
    with pytest.raises(Unreachable):
        RedisStore(f"redis://{HOST}:{port}/0").count("anna", 60)


def test_what_has_ended_leaves_the_file_and_the_memory(tmp_path: Path) -> None:
    clock = Hand()
    file = tmp_path / "counters.sqlite"
    store = FileStore(file, clock)
    for number in range(50):
        store.count(f"person-{number}", 1)
    clock.now += PRUNED_EVERY_S + 1
    store.count("anna", 60)
    connection = sqlite3.connect(file)
    try:
        assert connection.execute("SELECT name FROM counts").fetchall() == [("anna",)]
    finally:
        connection.close()
    own = OwnStore(clock)
    for number in range(REMEMBERED_MAX + 10):
        own.count(f"person-{number}", 60)
    assert len(own._counts) <= REMEMBERED_MAX


def test_a_process_that_opens_the_file_while_another_one_makes_it_waits_for_that(tmp_path: Path) -> None:
    file = tmp_path / "counters.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as maker:
        maker.execute("CREATE TABLE other (one)")
        maker.execute("BEGIN IMMEDIATE")
        done = threading.Timer(0.1, maker.execute, ("COMMIT",))
        done.start()
        try:
            assert FileStore(file).count("anna", 600)[0] == 1
        finally:
            done.join()


def test_a_file_that_stays_locked_is_out_of_reach_and_no_file_of_counts_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_counters, "STORE_TIMEOUT_S", 0.1)
    file = tmp_path / "counters.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None)) as maker:
        maker.execute("CREATE TABLE other (one)")
        maker.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unreachable, match=r"counters\.sqlite: "):
            FileStore(file).count("anna", 600)
    file.write_bytes(b"not a database, and long enough to be looked at" * 100)
    with pytest.raises(Unreachable, match="not a database"):
        FileStore(file).count("anna", 600)


@pytest.mark.processes
def test_a_count_can_be_read_without_an_event(where: str) -> None:
    counters = Counters(RedisStore(where) if where.startswith("redis:") else FileStore(Path(where)))
    assert counters.counted("anna") == 0
    for _ in range(3):
        counters.spend("anna", most=100, window_s=600)
    assert [counters.counted("anna"), counters.counted("anna"), counters.counted("ben")] == [3, 3, 0]


def test_a_count_that_has_ended_is_none_and_one_of_a_store_that_is_away_is_unknown(tmp_path: Path) -> None:
    hand = Hand()
    counters = Counters(FileStore(tmp_path / "counters", hand), hand)
    counters.spend("anna", most=1, window_s=1)
    hand.now += 2
    assert counters.counted("anna") == 0
    telling = Telling(OwnStore(hand))
    telling.away = True
    assert Counters(telling, hand).counted("anna") is None


def test_the_names_of_counts_say_no_e_mail_address_also_not_by_a_plain_hash(
    db: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    class Noting(OwnStore):
        def count(self, name: str, window_s: float) -> tuple[int, float]:
            names.append(name)
            return super().count(name, window_s)

    store = Counters(Noting())
    for user in (throttles, rate_limit):
        monkeypatch.setattr(user, "counters", lambda: store)
    email = "anna@acme.example"
    call("POST", "/v1/sessions", {"email": email, "password": "not the right one"})
    client.post("/sign-in", {"email": email, "password": "not the right one"})
    assert sum("sign-in" in name for name in names) >= 2, names
    plain = hashlib.sha256(email.encode()).hexdigest()
    assert not [name for name in names if email in name or plain in name]


def test_threads_of_a_process_queue_up_instead_of_sleeping_and_lose_no_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    store = FileStore(tmp_path / "counters.sqlite")
    store.count("anna", 600)
    with ThreadPoolExecutor(24) as threads:
        answers = list(threads.map(lambda _: store.count("anna", 600)[0], range(240)))
    assert sorted(answers) == list(range(2, 242)) and not slept


def test_a_thread_whose_turn_does_not_come_goes_on_without_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_counters, "STORE_TIMEOUT_S", 0.01)
    store = FileStore(tmp_path / "counters.sqlite")
    with store._turn:
        assert Counters(store).spend("anna", most=1, window_s=60).allowed
        with pytest.raises(Unreachable, match="the threads before this one"):
            store.count("anna", 60)
    assert store.count("anna", 60)[0] == 1
