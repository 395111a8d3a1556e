"""A tenant's month as it was measured and credited: strict JSON that is written once.

The credit is a grant of the tenant's terms, and the grant's reason holds the document's SHA-256: with the terms it
enters the billing chain, so neither the credit nor a number that it follows from can be changed afterwards.
"""

from typing import Annotated, Literal

import msgspec

from penstock.contract.document_fields import (
    TIME_MAX_MS,
    BasisPoints,
    Currency,
    Name,
    Ordinal,
    Quantity,
    Sha256,
    Strict,
    Whole,
)

Parts = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
"""Of 100 %, rounded down."""
Month = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])\Z")]
Second = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX_MS // 1_000)]
"""Since 1970 UTC."""
Windows = Annotated[int, msgspec.Meta(ge=0, le=10_000)]
"""A month has at most 8,928 of five minutes."""
WINDOWS_MAX = 10_000


class LevelTier(Strict, frozen=True):
    below_parts: Parts
    basis_points: BasisPoints


class LevelLatency(Strict, frozen=True):
    """In `target_parts` of the windows 99 % of the good produce requests take at most `within_ms`."""

    within_ms: int
    target_parts: Parts
    tiers: Annotated[tuple[LevelTier, ...], msgspec.Meta(max_length=20)]


class Level(Strict, frozen=True):
    """What was promised."""

    name: Name
    version: Ordinal
    target_parts: Parts
    latency_ms: int | None
    tiers: Annotated[tuple[LevelTier, ...], msgspec.Meta(max_length=20)]
    latency: LevelLatency | msgspec.UnsetType = msgspec.UNSET
    """Not in format 1."""


class Excluded(Strict, frozen=True):
    """A span [from, until) that an operator took out."""

    id: Name
    from_s: Second
    until_s: Second
    reason: Annotated[str, msgspec.Meta(max_length=200)]
    announced_s: Second | msgspec.UnsetType = msgspec.UNSET
    """When it was declared, before `from_s`. Only in format 4."""


class ImperfectWindow(Strict, frozen=True):
    """A window in which something failed, with the requests that judged it."""

    window_s: Second
    source: Annotated[str, msgspec.Meta(pattern=r"^(own|probe|few)\Z")]
    valid: Quantity
    bad: Quantity


class Run(Strict, frozen=True):
    """[from, until) without a success."""

    from_s: Second
    until_s: Second


class WindowsBySource(Strict, frozen=True):
    own: Windows
    probe: Windows
    few: Windows
    nothing: Windows
    excluded: Windows


class MeasuredDay(Strict, frozen=True):
    """A UTC day, by its first second, with so many windows that were judged."""

    day_s: Second
    judged: Annotated[int, msgspec.Meta(ge=1, le=288)]


class MeasuredOperation(Strict, frozen=True):
    """One operation: every window that is not here, and was judged, had no failure."""

    operation: Annotated[str, msgspec.Meta(pattern=r"^(produce|fetch|metadata)\Z")]
    windows: WindowsBySource
    valid: Quantity
    bad: Quantity
    imperfect: Annotated[tuple[ImperfectWindow, ...], msgspec.Meta(max_length=WINDOWS_MAX)]
    days: Annotated[tuple[MeasuredDay, ...], msgspec.Meta(max_length=31)]
    """Those with windows that were judged."""
    down_minutes: Whole
    runs: Annotated[tuple[Run, ...], msgspec.Meta(max_length=50_000)]
    mean_parts: Parts | None
    minutes_parts: Parts | None
    runs_parts: Parts | None


class SlowWindow(Strict, frozen=True):
    """A window in which more than 1 % of the good produce requests took too long."""

    window_s: Second
    good: Quantity
    slow: Quantity


class MeasuredLatency(Strict, frozen=True):
    """Every window that was judged, and is not here, was in time."""

    judged: Windows
    missed: Annotated[tuple[SlowWindow, ...], msgspec.Meta(max_length=WINDOWS_MAX)]
    parts: Parts | None
    """The share of windows in time: of all that are not excluded; in formats below 4 of those that were judged."""


class ChargedInvoice(Strict, frozen=True):
    """What an invoice of the month charges before credit and tax, less its credit notes."""

    id: Name
    document_sha256: Sha256
    charge_micro: Whole
    credited_micro: Whole
    """By credit notes, until the report."""
    void: Literal[True] | msgspec.UnsetType = msgspec.UNSET
    """Taken back by an operator before the report: it counts as nothing charged. Only in format 3."""

    @property
    def counted_micro(self) -> int:
        """What the tenant is to pay for the month by this invoice, before credit and tax. What was granted and then
        lost too is credited twice, and lowers no other invoice.
        """
        return 0 if self.void is True else max(0, self.charge_micro - self.credited_micro)


class ServiceLevelDocument(Strict, frozen=True):
    """Seconds are since 1970 UTC, spans half open, shares in parts of 10^9, amounts in micro-units. Format 2 has
    `latency`, in the level and of the month; 1 has neither. Format 3 has an invoice that is void, with or without
    `latency`. In these a share is of the windows that were judged.

    In format 4 a share is of all windows that are not excluded: one that nothing judged counts as one without a
    failure. What is excluded was announced before, and is of `EXCLUDED_WINDOWS_MAX` windows at most.
    """

    format: Literal[1, 2, 3, 4]
    kind: Literal["service_level"]
    tenant: Name
    month: Month
    from_s: Second
    """The first window: of the month, or of the tenant."""
    until_s: Second
    level: Level
    excluded: tuple[Excluded, ...]
    operations: tuple[MeasuredOperation, ...]
    binding_parts: Parts | None
    """The lower mean of produce and fetch. None: nothing was measured, and nothing is credited."""
    basis_points: BasisPoints
    invoices: tuple[ChargedInvoice, ...]
    currency: Currency
    minor_digits: Annotated[int, msgspec.Meta(ge=0, le=6)]
    charge_micro: Whole
    credit_micro: Whole
    grant: Annotated[str, msgspec.Meta(max_length=255)]
    """Of the tenant's terms; empty without a credit."""
    latency: MeasuredLatency | msgspec.UnsetType = msgspec.UNSET
