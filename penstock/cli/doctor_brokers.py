"""Brokers by name: which answer and how fast, which are down, and what that leaves without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from penstock.cli.broker_calls import answer_ms, connected
from penstock.cli.display import counted
from penstock.cli.doctor_checks import Finding, doubtful, well, wrong
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import BrokerUnavailable, PenstockError

if TYPE_CHECKING:
    from penstock import BrokerDescription, TopicDescription

_ASKED_AT_ONCE_MAX = 16
_NAMED_MAX = 5
SLOW_TIMES = 5
"""A broker that takes so many times as long as the quickest one does something else meanwhile."""
SLOW_MS_MIN = 20.0
"""Less is not noticed."""
_START = "Start it, or look at its machine (penstock dev status)."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One broker and how long each call of it took, or why it did not answer."""

    broker: int
    address: str
    times_ms: tuple[float, ...] = ()
    error: PenstockError | None = None

    @property
    def typical_ms(self) -> float:
        """The median."""
        return median(self.times_ms)


def asked_each(
    connection: ConnectionSettings, brokers: Sequence[BrokerDescription], timeout_s: float, calls: int
) -> list[Answered]:
    """Ask every registered broker itself, all at once."""

    def ask(broker: BrokerDescription) -> Answered:
        name, address = broker.broker, broker.address
        try:
            with connected(connection, address, timeout_s) as channel:
                times_ms = [answer_ms(connection, address, channel, timeout_s) for _ in range(calls)]
        except PenstockError as error:
            return Answered(broker=name, address=address, error=error)
        return Answered(broker=name, address=address, times_ms=tuple(times_ms))

    with ThreadPoolExecutor(_ASKED_AT_ONCE_MAX) as pool:
        return list(pool.map(ask, sorted(brokers, key=lambda broker: broker.broker)))


def answering(
    answered: Sequence[Answered], bootstrap: int, unreached: int, topics: Sequence[TopicDescription]
) -> Iterator[Finding]:
    """That each broker answers. One of several that does not is doubtful; without a majority it is wrong: no write that
    needs two copies goes on then.

    `unreached`: of so many bootstrap addresses, those without a listener. They may be those of brokers that are gone,
    of which nothing is known where they keep no partition of this tenant.
    """
    lost = _copies_of_missing({answer.broker for answer in answered}, topics)
    silent = [answer for answer in answered if answer.error is not None]
    there = [answer for answer in answered if answer.error is None]
    brokers = len(answered) + len(lost)
    few = 2 * len(there) <= brokers and brokers > 1
    few = few or (2 * unreached > bootstrap and len(there) < unreached)
    if there:
        yield well(
            "brokers",
            f"{len(there)} of {brokers} answer: "
            + ", ".join(f"{answer.broker} in {answer.typical_ms:.0f} ms" for answer in there),
        )
    for answer in silent:
        fact = f"broker {answer.broker} at {answer.address} is registered and does not answer: {answer.error}"
        yield _missing(
            fact, "It is paused, or busy with something else. Look at its machine and its log.", few
        )
    for broker, copies in lost.items():
        listed = ", ".join(copies[:_NAMED_MAX]) + (", ..." if len(copies) > _NAMED_MAX else "")
        fact = f"broker {broker} is down; {counted(len(copies), 'partition')} of yours lack a copy: {listed}"
        yield _missing(fact, _START, few)
    if few and not silent and not lost:
        fact = f"{len(there)} of {brokers} registered answer; bootstrap addresses without a listener: {unreached}"
        yield _missing(fact, _START, few)


def _missing(fact: str, remedy: str, few: bool) -> Finding:
    return wrong("brokers", BrokerUnavailable(fact), remedy) if few else doubtful("brokers", fact, remedy)


def _copies_of_missing(
    registered: set[int], topics: Sequence[TopicDescription]
) -> Mapping[int, Sequence[str]]:
    """The partitions that have a replica at a broker that is not registered, by broker."""
    copies: dict[int, list[str]] = {}
    for topic in topics:
        for partition in topic.partitions:
            for broker in partition.replicas:
                if broker not in registered:
                    copies.setdefault(broker, []).append(f"{topic.name}-{partition.partition}")
    return dict(sorted(copies.items()))


def pace(answered: Sequence[Answered]) -> Iterator[Finding]:
    """How the brokers' times compare: each with the quickest one of this very minute."""
    there = [answer for answer in answered if answer.times_ms]
    if not there:
        return
    quickest = min(answer.typical_ms for answer in there)
    slow = [
        answer
        for answer in there
        if answer.typical_ms > SLOW_MS_MIN and answer.typical_ms > SLOW_TIMES * quickest
    ]
    for answer in slow:
        yield doubtful(
            "calls",
            f"broker {answer.broker} takes {answer.typical_ms:.0f} ms for a call that needs no disk,"
            f" the quickest one {quickest:.0f} ms",
            "It is far away, or its processor is busy: look at what leads there (penstock topic describe) and its log.",
        )
    if not slow:
        longest = max(max(answer.times_ms) for answer in there)
        yield well(
            "calls",
            f"{quickest:.0f} ms at the quickest broker, {max(a.typical_ms for a in there):.0f} ms at the slowest,"
            f" {longest:.0f} ms at most",
        )
