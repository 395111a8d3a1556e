"""How bugs are planted and found: one named function of the product is replaced, and a finder looks.

The same finder passes on the product as it is and fails with the bug, by a named invariant and not by an exception.
"""

import importlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from data_plane.testkit.faults import Cell, FaultKind, Step
from data_plane.testkit.invariants import Invariant, InvariantViolated
from data_plane.testkit.scenario import Scenario
from data_plane.testkit.swarm import NodeSizes, Plan, ProducerPlan, TopicPlan, draw_plan
from penstock.contract import limits
from penstock.contract.topic_settings import TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a finder found: the invariant's name (empty = nothing), the evidence, and where to look again."""

    violated: str = ""
    explanation: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """Finder: simulate `plan(seed)` for `count` seeds from `first`, up to the first violation."""

    plan: Callable[[int], Plan]
    first: int = 0
    count: int = 12

    def look(self, wanted: Collection[str], only: str = "") -> Finding:
        """The first seed that violates a wanted invariant (none wanted = any), else the last violation; with `only`
        ("seed 7") just there.
        """
        seeds = [int(only.removeprefix("seed "))] if only else range(self.first, self.first + self.count)
        last = Finding()
        for seed in seeds:
            result = Scenario(self.plan(seed)).run()
            if result.violated:
                last = Finding(violated=result.violated, explanation=result.explanation, where=f"seed {seed}")
                if not wanted or result.violated in wanted:
                    return last
        return last


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Finder: one deterministic check that raises `InvariantViolated`."""

    check: Callable[[], None]

    def look(self, wanted: Collection[str], only: str = "") -> Finding:
        try:
            self.check()
        except InvariantViolated as violation:
            return Finding(
                violated=violation.name, explanation=violation.explanation, where=self.check.__name__
            )
        return Finding()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """One replaced decision. `target` is `module:name` or `module:Class.name`; `breaks` what the finder may name."""

    name: str
    rule: str
    target: str
    replacement: Callable[..., Any]
    breaks: tuple[Invariant, ...]
    finder: Seeds | Check


@contextmanager
def planted(bug: PlantedBug) -> Iterator[None]:
    """The product with the bug in it."""
    module, _, path = bug.target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    original = owner.__dict__[name]
    setattr(owner, name, bug.replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


def directed(
    seed: int,
    *cells: tuple[FaultKind, Step],
    replication: int = 3,
    min_insync: int = 2,
    acks: tuple[int, ...] = (-1, -1),
    chaos_s: float = 10.0,
    topic: dict[str, Any] | None = None,
    **changes: Any,
) -> Plan:
    """A plan for one kind of trouble: one small topic, quick clients, only these faults."""
    settings = TopicSettings(
        replication=replication,
        min_insync_replicas=min_insync,
        **{"segment_bytes": 16 * limits.KIB, **(topic or {})},
    )
    plan = replace(
        draw_plan(seed),
        brokers=3,
        topics=(TopicPlan(name="topic", partitions=1, settings=settings),),
        producers=tuple(producer(value) for value in acks),
        consumers=1,
        sdk_consumers=0,
        cells=tuple(Cell(*cell) for cell in cells),
        chaos_s=chaos_s,
        fault_gap_s=0.3,
        sizes=NodeSizes(
            journal_bytes=64 * limits.KIB,
            tail_bytes=64 * limits.KIB,
            replica_window_bytes=limits.MIB,
            push_bytes_max=64 * limits.KIB,
            unsynced_bytes_max=limits.MIB,
        ),
    )
    return replace(plan, **changes)


def producer(acks: int, *, idempotent: bool = True) -> ProducerPlan:
    """A quick producer of small batches."""
    return ProducerPlan(
        topic=0,
        acks=acks,
        idempotent=idempotent and acks != 0,
        batches_per_s=60.0,
        records_per_batch_max=3,
        value_bytes_max=60,
        in_flight=5 if idempotent and acks else 1,
        delivery_timeout_ms=10_000,
        sdk=False,
        repeats=idempotent,
    )
