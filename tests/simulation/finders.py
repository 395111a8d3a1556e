"""Who finds planted bugs: seeds of the simulation, randomised models, flipped bytes, crash states."""

import gc
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from data_plane.controller.registration import AlreadyRegistered, registration
from data_plane.log import layout
from data_plane.metadata import broker_records
from data_plane.metadata.broker_records import BrokerRecord, LiveRecord
from data_plane.metadata.features import Supported
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.medium import Inode
from data_plane.testkit.scenario import Scenario
from data_plane.testkit.swarm import Plan
from penstock.contract.ids import BrokerId
from tests.properties.replication.model import Violation
from tests.properties.replication.partition import Store
from tests.unit.log.batches import made_batch
from tests.unit.log.miniature import Miniature, where

_BATCHES = 6
ONE_EPOCH = "RL2: an incarnation has one registration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One broken promise: an invariant's name, or the promise of a property in its words."""

    promise: str
    explanation: str


class Finder(Protocol):
    """Tries numbers from `first` on, at most `tries` of them, until one of them finds something in `by`."""

    @property
    def first(self) -> int: ...
    @property
    def tries(self) -> int: ...
    @property
    def search_tries(self) -> int:
        """How many numbers a search from 0 on may try."""
        ...

    @property
    def by(self) -> tuple[str, ...]:
        """The promises that count: anything else that breaks is no find."""
        ...

    def describe(self) -> str: ...
    def attempt(self, number: int) -> Found | None:
        """None: every promise held. What the program raises by itself is raised: it finds nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """Simulated clusters of one kind of plan; the number is the seed."""

    plan: Callable[[int], Plan]
    first: int
    by: tuple[str, ...]
    tries: int = 60
    search_tries: int = 200

    def describe(self) -> str:
        return f"simulation: {self.plan.__name__.replace('_', ' ')}"

    def attempt(self, number: int) -> Found | None:
        gc.collect()
        gc.disable()
        try:
            result = Scenario(self.plan(number)).run()
        finally:
            gc.enable()
        return None if result.passed else Found(promise=result.violated, explanation=result.explanation)


_PROMISES = {
    "may be elected": Invariant.I10,
    "the watermark is beyond the log": Invariant.I10,
    "the watermark went back": Invariant.I13,
    "is ready with": Invariant.I13,
    "the log start went back": Invariant.I13,
    "calls committed what is not": Invariant.I11,
    "commits another value": Invariant.I11,
    "after everything healed": Invariant.I20,
}
"""What the models of replication say of a broken promise -> the invariant that it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A randomised model of replication: one leader epoch, or one partition through many."""

    run: Callable[[int], object]
    first: int
    by: tuple[str, ...]
    tries: int = 400
    search_tries: int = 3_000

    def describe(self) -> str:
        return f"property: {self.run.__module__.rpartition('.')[2].removeprefix('test_').replace('_', ' ')}"

    def attempt(self, number: int) -> Found | None:
        try:
            self.run(number)
        except Violation as broken:
            for words, invariant in _PROMISES.items():
                if words in str(broken):
                    return Found(promise=invariant.name, explanation=str(broken))
            raise
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registering:
    """One broker that registers at a store whose answers get lost, each time with one incarnation."""

    first: int = 0
    by: tuple[str, ...] = (ONE_EPOCH,)
    tries: int = 5
    search_tries: int = 50

    def describe(self) -> str:
        return "property: registration with lost answers"

    def attempt(self, number: int) -> Found | None:
        rng, store, me = random.Random(number), Store(), BrokerId(1)
        record = BrokerRecord(
            broker_id=me, directory_id="d", client_address="c", internal_address="i", zone="z"
        )
        for life in range(20):
            live = LiveRecord(incarnation=f"life {life}", directory_id="d")
            key, about = broker_records.live_key(me), broker_records.broker_key(me)
            for _ in range(50):
                step = registration(
                    store.items.get(key), store.items.get(about), record, live, 0, Supported(), 0
                )
                if isinstance(step, AlreadyRegistered):
                    break
                if store.txn(step.compares, step.changes) and rng.random() < 0.5:
                    continue  # the answer is lost: ask again
            revisions = [
                event.mod_revision
                for batch in store.batches
                for event in batch.events
                if event.key == key and event.value == live.encode()
            ]
            if len(revisions) > 1:
                return Found(promise=ONE_EPOCH, explanation=f"life {life} was registered at {revisions[:5]}")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedBytes:
    """A small acknowledged log with one byte of its data file flipped and its index lost, so that all of it is checked
    when it is opened again. The number is the byte's place.

    The topic has one replica: every acknowledged batch but the damaged one must still be there, and that one's loss be
    told.
    """

    first: int
    by: tuple[str, ...] = (Invariant.I1.name,)
    tries: int = 20
    search_tries: int = 500

    def describe(self) -> str:
        return "unit: a byte flipped below the durable mark"

    def attempt(self, number: int) -> Found | None:
        written = Miniature(tail_bytes=0)
        written.create()
        for at in range(_BATCHES):
            written.append(batch=made_batch(2, 400, producer_id=9, epoch=0, sequence=2 * at))
            written.commit()
        written.checkpoint()
        acknowledged = written.log.log_end_offset
        disk = written.disk
        assert isinstance(disk, SimDisk)
        disk.kill()
        after = SimDisk(disk.medium)
        path = f"{layout.partition_directory(where())}/{0:020d}"
        inode = disk.medium.find(path + layout.LOG_SUFFIX)
        assert isinstance(inode, Inode)
        inode.data[number % len(inode.data)] ^= 1
        after.remove(path + layout.INDEX_SUFFIX)
        damaged = number % len(inode.data) * _BATCHES // len(inode.data) * 2
        log = Miniature(after, tail_bytes=0).log
        for offset in range(0, acknowledged, 2):
            named = any(one.first_offset <= offset < one.end_offset for one in log.damage)
            if offset == damaged and not named and offset >= log.log_end_offset:
                return Found(
                    promise=Invariant.I1.name, explanation=f"offset {offset} is gone and nobody says so"
                )
            if offset != damaged and (named or offset >= log.log_end_offset):
                return Found(
                    promise=Invariant.I1.name,
                    explanation=f"byte {number} of the batch at {damaged} was flipped; the one at {offset} is gone",
                )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashStates:
    """Every disk that a power cut may leave at each step of a protocol of the log; `explore` asserts."""

    explore: Callable[[], None]
    first: int = 0
    by: tuple[str, ...] = (Invariant.I1.name,)
    tries: int = 1
    search_tries: int = 1

    def describe(self) -> str:
        return "unit: crash states"

    def attempt(self, number: int) -> Found | None:
        try:
            self.explore()
        except AssertionError as lost:
            return Found(promise=Invariant.I1.name, explanation=str(lost).partition("\n")[0])
        return None
