"""Allocation: what the month of an asset costs, and whose cost it is. Pure, in integer micro-units of one currency.

Each asset has a driver, a quantity that every tenant uses some of. The asset's cost is divided by it:

1. *direct*: a tenant's part of the use, of the capacity where the asset names one, else of all use;
2. *idle*: what is left of the capacity. Use above the capacity scales the parts, so idle is never negative;
3. *overhead*: assets without a driver;
4. idle and overhead are spread over the tenants in proportion to their direct cost (`Idle.SPREAD`), or the service
   keeps the idle part (`Idle.KEPT`). What has no tenant to go to is unspread.

Every division is by largest remainders, so that parts are never negative and add up to the whole to the micro-unit,
in whichever order tenants and assets are named: tenants + kept idle + unspread = cost.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

from penstock.contract.invariant import invariant
from penstock.rules.proration import MONTH_PARTS, month_parts
from penstock.rules.timestamps import time_ms

HOUR_MS = 3_600_000
METHOD = "largest-remainder-1"
"""Names these rules. It changes with them."""
MILLION = 10**6
GIB = 2**30

Key = TypeVar("Key", bound=Hashable)


class Kind(StrEnum):
    """What an asset is."""

    HOSTS = "hosts"
    DISK = "disk"
    TRAFFIC = "traffic"
    OTHER = "other"


class Driver(StrEnum):
    """What an asset's cost is divided by."""

    BYTES = "bytes"
    """In and out."""
    BYTES_IN = "bytes_in"
    BYTES_OUT = "bytes_out"
    MESSAGES = "messages"
    """In and out."""
    MESSAGES_IN = "messages_in"
    MESSAGES_OUT = "messages_out"
    NONE = "none"
    """Nothing: the asset is overhead."""


METERS: Mapping[Driver, tuple[str, ...]] = {
    Driver.BYTES: ("bytes_in", "bytes_out"),
    Driver.BYTES_IN: ("bytes_in",),
    Driver.BYTES_OUT: ("bytes_out",),
    Driver.MESSAGES: ("messages_in", "messages_out"),
    Driver.MESSAGES_IN: ("messages_in",),
    Driver.MESSAGES_OUT: ("messages_out",),
    Driver.NONE: (),
}
"""The meters that add up to a driver."""
DRIVER_OF: Mapping[Kind, Driver] = {
    Kind.HOSTS: Driver.BYTES,
    Kind.DISK: Driver.BYTES_IN,
    Kind.TRAFFIC: Driver.BYTES_OUT,
    Kind.OTHER: Driver.NONE,
}
"""Of an asset that names none."""


class Per(StrEnum):
    """What a price is for."""

    HOUR = "hour"
    MONTH = "month"
    """A UTC month, however long it is."""
    PERIOD = "period"
    """All of the asset's time, spread evenly over it."""


class Idle(StrEnum):
    """Who bears what is idle."""

    SPREAD = "spread"
    KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """So many pieces of one price, from `begins` on and before `ends` (None = it has no end yet)."""

    name: str
    kind: Kind
    driver: Driver
    amount: int
    price_micro: int
    """Of one piece."""
    per: Per
    begins: datetime
    ends: datetime | None
    capacity_month: int | None = None
    """Of the driver, of all pieces in a whole UTC month. None = not known, so nothing of it is idle."""

    def __post_init__(self) -> None:
        invariant(self.amount >= 0 and self.price_micro >= 0, "no cost is negative")
        invariant(
            self.ends is None or time_ms(self.begins) < time_ms(self.ends),
            "an asset ends a ms after it begins",
        )
        invariant(self.per is not Per.PERIOD or self.ends is not None, "a price for a period has its end")
        invariant(self.capacity_month is None or self.capacity_month > 0, "a capacity is above 0")
        invariant(self.capacity_month is None or self.driver is not Driver.NONE, "overhead has no capacity")

    def _within(self, first: datetime, end: datetime) -> tuple[datetime, datetime] | None:
        begins, ends = max(first, self.begins), end if self.ends is None else min(end, self.ends)
        return (begins, ends) if begins < ends else None

    def cost_micro(self, first: datetime, end: datetime) -> int:
        """What it costs in [first, end). Times that follow one another add up to all of it, to the micro-unit."""
        within = self._within(first, end)
        return 0 if within is None else self._cost_until(within[1]) - self._cost_until(within[0])

    def _cost_until(self, at: datetime) -> int:
        """From its beginning on, rounded half up."""
        whole = self.amount * self.price_micro
        begins_ms, at_ms = time_ms(self.begins), time_ms(at)
        if self.per is Per.HOUR:
            return _half_up(whole * (at_ms - begins_ms), HOUR_MS)
        if self.per is Per.MONTH:
            return _half_up(whole * month_parts(begins_ms, at_ms), MONTH_PARTS)
        assert self.ends is not None
        return _half_up(whole * (at_ms - begins_ms), time_ms(self.ends) - begins_ms)

    def capacity(self, first: datetime, end: datetime) -> int | None:
        """Of the driver in [first, end), rounded up."""
        within = self._within(first, end)
        if self.capacity_month is None or within is None:
            return None
        return -(-self.capacity_month * month_parts(time_ms(within[0]), time_ms(within[1])) // MONTH_PARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """An asset's cost in the month, and what became of it: `direct` + idle + overhead + unspread = cost."""

    asset: Asset
    cost_micro: int
    used: int
    """Of the driver, by all tenants."""
    capacity: int | None
    direct_micro: int
    idle_micro: int
    overhead_micro: int
    unspread_micro: int
    """No tenant used any of it, and it names no capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one tenant bears."""

    direct_micro: int = 0
    idle_micro: int = 0
    overhead_micro: int = 0

    @property
    def loaded_micro(self) -> int:
        return self.direct_micro + self.idle_micro + self.overhead_micro


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Whose cost a month is. The shares' loaded costs + `idle_kept_micro` + `unspread_micro` = `cost_micro`."""

    assets: tuple[Divided, ...]
    shares: Mapping[str, Share]
    cost_micro: int
    direct_micro: int
    idle_micro: int
    """All that is idle, borne by tenants or not."""
    overhead_micro: int
    idle_kept_micro: int
    """Borne by no tenant."""
    unspread_micro: int
    """Overhead and cost without any use, borne by no tenant."""
    idle: Idle
    direct_by_driver: Mapping[Driver, Mapping[str, int]]
    """Driver -> tenant -> direct cost of assets with it; together they are the shares' direct costs."""


def month_of(text: str) -> tuple[datetime, datetime] | None:
    """[first, end) of a UTC month `2026-11`; None where it is none."""
    year, dash, month = text.partition("-")
    digits = f"{year}{month}"
    if len(text) != 7 or dash != "-" or len(year) != 4 or not (digits.isascii() and digits.isdigit()):
        return None
    if not (1970 <= int(year) <= 9998 and 1 <= int(month) <= 12):
        return None
    first = datetime(int(year), int(month), 1, tzinfo=UTC)
    return first, month_after(first)


def month_after(first: datetime) -> datetime:
    """The beginning of the month after the one that begins then."""
    return first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)


def apportion(total: int, weights: Mapping[Key, int], order: Sequence[Key] | None = None) -> dict[Key, int]:
    """`total` in proportion to the weights, by largest remainders; of equal remainders the first in `order` (that of
    the weights without it) is rounded up. The parts add up to the total, and each is within 1 of its exact part.

    All weights 0: no part has anything, and the caller has the whole total left.
    """
    invariant(total >= 0 and all(weight >= 0 for weight in weights.values()), "nothing negative is divided")
    whole = sum(weights.values())
    if not whole:
        return dict.fromkeys(weights, 0)
    parts, remainders = {}, []
    for rank, key in enumerate(weights if order is None else order):
        part, remainder = divmod(total * weights[key], whole)
        parts[key] = part
        remainders.append((-remainder, rank, key))
    left = total - sum(parts.values())
    remainders.sort(key=lambda one: one[:2])
    for _, _, key in remainders[:left]:
        parts[key] += 1
    return parts


def used_of(driver: Driver, usage: Mapping[str, int]) -> int:
    """Of the driver, by a tenant's meters. A reversal never makes use negative."""
    return max(0, sum(usage.get(meter, 0) for meter in METERS[driver]))


def allocate(
    assets: Iterable[Asset],
    usage: Mapping[str, Mapping[str, int]],
    first: datetime,
    end: datetime,
    *,
    idle: Idle = Idle.SPREAD,
) -> Allocation:
    """Divide the cost of [first, end), which lie in one UTC month, over the tenants of `usage`: tenant -> meter ->
    quantity.
    """
    tenants = sorted(usage)
    uses: dict[Driver, dict[str, int]] = {
        driver: {tenant: used_of(driver, usage[tenant]) for tenant in tenants}
        for driver in Driver
        if driver is not Driver.NONE
    }
    by_driver: dict[Driver, dict[str, int]] = {driver: dict.fromkeys(tenants, 0) for driver in uses}
    divided = []
    for asset in assets:
        one, parts = _divide(asset, uses.get(asset.driver, {}), tenants, first, end)
        divided.append(one)
        for tenant, part in parts.items():
            by_driver[asset.driver][tenant] += part
    direct = {tenant: sum(parts[tenant] for parts in by_driver.values()) for tenant in tenants}
    idle_micro = sum(one.idle_micro for one in divided)
    overhead_micro = sum(one.overhead_micro for one in divided)
    idle_parts = apportion(idle_micro if idle is Idle.SPREAD else 0, direct)
    overhead_parts = apportion(overhead_micro, direct)
    shares = {
        tenant: Share(
            direct_micro=direct[tenant],
            idle_micro=idle_parts[tenant],
            overhead_micro=overhead_parts[tenant],
        )
        for tenant in tenants
    }
    found = Allocation(
        assets=tuple(divided),
        shares=shares,
        cost_micro=sum(one.cost_micro for one in divided),
        direct_micro=sum(direct.values()),
        idle_micro=idle_micro,
        overhead_micro=overhead_micro,
        idle_kept_micro=idle_micro - sum(idle_parts.values()),
        unspread_micro=sum(one.unspread_micro for one in divided)
        + overhead_micro
        - sum(overhead_parts.values()),
        idle=idle,
        direct_by_driver=by_driver,
    )
    borne = sum(share.loaded_micro for share in shares.values())
    invariant(
        borne + found.idle_kept_micro + found.unspread_micro == found.cost_micro,
        "an allocation keeps the cost",
    )
    return found


def divide_share(found: Allocation, tenant: str, usage: Mapping[str, Mapping[str, int]]) -> dict[str, Share]:
    """What a tenant bears, divided over parts of its use: part -> meter -> quantity. Direct costs by each driver, idle
    and overhead in proportion to them. The shares add up to the tenant's, to the micro-unit; where nothing says whose a
    cost is, it is of the part "".
    """
    parts = sorted({*usage, ""})
    direct = dict.fromkeys(parts, 0)
    for driver, tenants in found.direct_by_driver.items():
        uses = {part: used_of(driver, usage.get(part, {})) for part in parts}
        for part, micro in _parts_of(tenants.get(tenant, 0), uses).items():
            direct[part] += micro
    whole = found.shares[tenant]
    idle, overhead = _parts_of(whole.idle_micro, direct), _parts_of(whole.overhead_micro, direct)
    return {
        part: Share(direct_micro=direct[part], idle_micro=idle[part], overhead_micro=overhead[part])
        for part in parts
    }


def _parts_of(micro: int, weights: Mapping[str, int]) -> dict[str, int]:
    parts = apportion(micro, weights)
    parts[""] += micro - sum(parts.values())
    return parts


def rate_micro(cost_micro: int, quantity: int, unit: int) -> int | None:
    """The cost of `unit` items, rounded half up; None without items."""
    return None if quantity <= 0 else _half_up(cost_micro * unit, quantity)


def _divide(
    asset: Asset, uses: Mapping[str, int], tenants: Sequence[str], first: datetime, end: datetime
) -> tuple[Divided, dict[str, int]]:
    cost, capacity = asset.cost_micro(first, end), asset.capacity(first, end)
    used = sum(uses.values())
    parts: dict[str, int] = {}
    overhead = unspread = idle = 0
    if asset.driver is Driver.NONE:
        overhead = cost
    elif not used and capacity is None:
        unspread = cost
    else:
        # Idle is one more part, so that its rounding is the tenants' own. No tenant has an empty id.
        weights = {**uses, "": 0 if capacity is None else max(0, capacity - used)}
        parts = apportion(cost, weights, [*tenants, ""])
        idle = parts.pop("")
    divided = Divided(
        asset=asset,
        cost_micro=cost,
        used=used,
        capacity=capacity,
        direct_micro=sum(parts.values()),
        idle_micro=idle,
        overhead_micro=overhead,
        unspread_micro=unspread,
    )
    return divided, parts


def _half_up(part: int, whole: int) -> int:
    return (2 * part + whole) // (2 * whole)
