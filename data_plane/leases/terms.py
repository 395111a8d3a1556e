"""What holders and the coordinator of leases say to each other, and for how long it holds.

A lease is an amount of one limit that one holder may use until a time. Amounts are whole numbers in the limit's own
unit (bytes a second, calls a second; of a budget whatever is spent of it). Times are monotonic milliseconds of each
one's own clock: no time travels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.contract.ids import BrokerId, TenantId
from penstock.contract.invariant import invariant

WISHES_MAX = 2_000
"""Limits in one request: some 20 ms of a turn of the coordinator. A holder with more asks for them in turn, one part a
request."""


@dataclass(frozen=True, slots=True, order=True)
class LimitKey:
    """Which limit of whom."""

    tenant: TenantId
    name: str
    """As in `data_plane.metadata.model.TenantQuotas`."""
    principal: str = ""
    """Of all the tenant's, whose own limit it is; empty: the limit is all the tenant's."""
    topic: str = ""
    """Of all the tenant's or the principal's, the topic that it is of; empty: the limit is of all topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The same at every broker of a cluster, in ms."""

    notice_ms: int = 4_000
    """In which a coordinator that has a successor stops granting."""
    lease_ms: int = 7_000
    """From the holder's request on. A coordinator has stopped before leases end that its successor renews, so it grants
    those to no one else. It is also longer than a change of the controller takes, which costs no one their lease."""
    renew_ms: int = 250
    """Between requests of a holder that holds something."""
    answer_ms: int = 2_000
    """An answer that takes longer is not taken. A loaded machine is slow."""
    margin_ms: int = 100
    """By which the coordinator counts leases longer than holders do: clocks do not run equally fast."""
    learn_ms: int = 12_000
    """After which a new coordinator need not wait for brokers that have not reported: what its predecessor granted
    has ended."""

    wishes_max: int = WISHES_MAX

    def __post_init__(self) -> None:
        invariant(0 < self.wishes_max <= WISHES_MAX, "a request is bounded")
        invariant(
            0 < self.renew_ms <= self.answer_ms
            and self.margin_ms >= 0
            and self.notice_ms + self.renew_ms + self.answer_ms <= self.lease_ms
            and self.notice_ms + self.lease_ms + self.margin_ms <= self.learn_ms,
            "a coordinator stops before its last leases end, and its successor waits until they have ended",
        )

    @property
    def lapse_ms(self) -> int:
        """From the end of a lease that could not be renewed until its holder may use its safe share: by then the
        coordinator has reserved it, and what others were granted before has ended."""
        return self.lease_ms + self.answer_ms + 2 * self.margin_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Of one limit, in a request."""

    holds: int
    """The holder uses no more of its lease than this until it is answered."""
    wants: int
    """What it could use; 0: the limit is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """All that a holder holds and wants, or a part of it; what is not in a whole one, the holder has given up."""

    holder: BrokerId
    registration: int
    """Its broker epoch."""
    epoch: int
    """Of the coordinator that it is meant for."""
    sequence: int
    """Rises with each request of a holder."""
    answered: int
    """Sequence of the last request to this coordinator whose answer was taken; 0 = none."""
    wishes: Mapping[LimitKey, Wish] = field(default_factory=dict)
    partial: bool = False
    """Limits without a wish here stay as they are."""
    whole: bool = True
    """With this one the coordinator was asked for all that the holder holds, and has answered all the others."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a broker may use of a limit now, unless something changes before `until_ms`."""

    amount: int
    until_ms: float
