"""Reads a FOCUS 1.2 export of infrastructure costs and turns it into assets. Pure.

Rows of one service within one UTC month are summed up exactly; a row whose charge period lies in several months stays
apart, and is spread evenly over its time. The rules:

1. `ServiceCategory` says the kind: *Compute* and *Containers* are hosts, *Storage* is disk, *Networking* is traffic,
   every other one is other;
2. `EffectiveCost` is what a row costs (`BilledCost` if it is asked for), in `BillingCurrency`, from `ChargePeriodStart`
   to `ChargePeriodEnd`;
3. what is negative (credits, refunds, corrections) lowers the costs of its own service, then the largest of its month
   and currency; a month that is negative as a whole is refused;
4. the sum of a month and currency is rounded half up to the micro-unit once, and its costs by largest remainders, so
   that they add up to it.
"""

import csv
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from penstock.contract.errors import InvalidRequest
from penstock.rules.allocation import Kind, month_after
from penstock.rules.csv_lines import exact_line

MICRO = 10**6
ROWS_MAX = 2_000_000
"""Of one file."""
SUMS_MAX = 1_000
"""That it may become, as one import may have costs."""
COST_MAX, PLACES_MAX = 10**9, 30
EFFECTIVE, BILLED = "EffectiveCost", "BilledCost"
COST_COLUMNS = (EFFECTIVE, BILLED)
NEEDED = ("BillingCurrency", "ChargePeriodStart", "ChargePeriodEnd", "ServiceCategory", "ServiceName")
KINDS = {
    "Compute": Kind.HOSTS,
    "Containers": Kind.HOSTS,
    "Storage": Kind.DISK,
    "Networking": Kind.TRAFFIC,
}
"""By `ServiceCategory`; every other one is `Kind.OTHER`."""
_NAME_MAX = 200
_NUMBER = re.compile(r"-?(\d{1,20})(\.\d{1,30})?([eE][+-]?\d{1,2})?")
_TIME = re.compile(r"(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2}):(\d{2})(?:\.\d{1,9})?(?:Z|\+00:00)")
_CURRENCY = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSum:
    """What rows of a service cost together in [begins, ends), exactly."""

    kind: Kind
    name: str
    currency: str
    begins: datetime
    ends: datetime
    cost: Fraction

    @property
    def month(self) -> datetime:
        return self.begins.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A file as it was read: how many rows it has, and their sums in the order of time, kind and name."""

    rows: int
    sums: tuple[CostSum, ...]

    @property
    def sha256(self) -> str:
        """Equal digests are equal sums, however the file was written."""
        content = [
            [
                one.kind.value,
                one.name,
                one.currency,
                one.begins.isoformat(),
                one.ends.isoformat(),
                str(one.cost),
            ]
            for one in self.sums
        ]
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodCost:
    """A cost for a period, as an asset has it."""

    kind: Kind
    name: str
    currency: str
    begins: datetime
    ends: datetime
    cost_micro: int


def read(lines: Iterable[str], cost_column: str = EFFECTIVE) -> Export:
    """The export in these lines of CSV. Raises `InvalidRequest`, which names row and column: row 1 is the header."""
    if cost_column not in COST_COLUMNS:
        raise InvalidRequest(f"cost_column: {cost_column[:30]!r}; one of {', '.join(COST_COLUMNS)} required")
    # Before CSV is read: a quote after a byte order mark would not begin a quoted cell.
    reader = csv.reader((line.lstrip("\ufeff") for line in lines), strict=True)
    sums: dict[tuple[Kind, str, str, datetime, datetime], _Sum] = {}
    rows = 0
    try:
        header = next(reader, None)
        places = _places(header, cost_column)
        for cells in reader:
            rows += 1
            if rows > ROWS_MAX:
                raise InvalidRequest(f"csv: more than {ROWS_MAX} rows; export fewer months")
            if not cells:
                rows -= 1
                continue
            if len(cells) != len(header or ()):
                raise InvalidRequest(
                    f"csv: row {rows + 1}: {len(cells)} cells, the header has {len(header or ())}"
                )
            _add(
                sums,
                {name: cells[at].strip() for name, at in places.items()},
                f"csv: row {rows + 1}",
                cost_column,
            )
            if len(sums) > SUMS_MAX:
                raise InvalidRequest(
                    f"csv: row {rows + 1}: more than {SUMS_MAX} different services, currencies and times;"
                    " export fewer months, or group the export by service"
                )
    except csv.Error as error:
        raise InvalidRequest(f"csv: row {rows + 2}: {error}") from None
    if not rows:
        raise InvalidRequest("csv: it has no row below its header")
    found = (
        CostSum(kind=kind, name=name, currency=currency, begins=one.begins, ends=one.ends, cost=one.cost)
        for (kind, name, currency, _, _), one in sums.items()
    )
    return Export(rows=rows, sums=tuple(sorted(found, key=_order)))


def compact(export: Export, cost_column: str = EFFECTIVE) -> Iterator[str]:
    """The export as a small one of a row for each sum, with the columns that are needed: it reads as the same sums.

    For the service, not for spreadsheets: names stay what they are.
    """
    categories = {kind: category for category, kind in reversed(KINDS.items())} | {Kind.OTHER: "Other"}
    yield exact_line([*NEEDED, cost_column])
    for one in export.sums:
        times = (f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in (one.begins, one.ends))
        yield exact_line([one.currency, *times, categories[one.kind], one.name, _decimal(one.cost)])


def costs(export: Export) -> list[PeriodCost]:
    """What the export becomes; what is 0 is left out. Raises `InvalidRequest`: a month is negative."""
    found = []
    months: dict[tuple[datetime, str], list[CostSum]] = {}
    for one in export.sums:
        months.setdefault((one.month, one.currency), []).append(one)
    for (month, currency), sums in sorted(months.items()):
        total = sum((one.cost for one in sums), Fraction(0))
        if total < 0:
            raise InvalidRequest(
                f"csv: {month:%Y-%m} costs {_decimal(total)} {currency}: its credits exceed its costs;"
                " export it with the months that they are for"
            )
        for one, micro in zip(sums, _rounded(_netted(sums), total), strict=True):
            if micro:
                found.append(
                    PeriodCost(
                        kind=one.kind, name=one.name, currency=currency, begins=one.begins, ends=one.ends,
                        cost_micro=micro,
                    )
                )  # fmt: skip
    return found


def _netted(sums: Sequence[CostSum]) -> list[Fraction]:
    """Without a negative one: each lowers those of its service first, then the largest. They still add up."""
    left = [one.cost for one in sums]
    for at, one in enumerate(sums):
        if left[at] < 0:
            own = [i for i, other in enumerate(sums) if (other.kind, other.name) == (one.kind, one.name)]
            by_size = sorted(range(len(sums)), key=lambda i: (-left[i], i))
            for i in dict.fromkeys([*own, *by_size]):
                if left[i] > 0 and left[at] < 0:
                    taken = min(left[i], -left[at])
                    left[i] -= taken
                    left[at] += taken
    return left


def _rounded(parts: Sequence[Fraction], total: Fraction) -> list[int]:
    """Micro-units that add up to the total, which is rounded half up; of equal remainders the first is rounded up."""
    whole = (2 * total * MICRO + 1) // 2
    floors = [part * MICRO // 1 for part in parts]
    order = sorted(range(len(parts)), key=lambda at: (-(parts[at] * MICRO - floors[at]), at))
    missing = int(whole - sum(floors))
    for at in order[:missing]:
        floors[at] += 1
    return [int(one) for one in floors]


@dataclass(slots=True)
class _Sum:
    begins: datetime
    ends: datetime
    cost: Fraction


def _places(header: Sequence[str] | None, cost_column: str) -> dict[str, int]:
    if header is None:
        raise InvalidRequest("csv: it is empty")
    names = [name.strip() for name in header]
    wanted = (*NEEDED, cost_column)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InvalidRequest(f"csv: row 1: no column {', '.join(missing)}; FOCUS 1.2 has it")
    twice = [name for name in wanted if names.count(name) > 1]
    if twice:
        raise InvalidRequest(f"csv: row 1: column {twice[0]} stands there twice")
    return {name: names.index(name) for name in wanted}


def _add(
    sums: dict[tuple[Kind, str, str, datetime, datetime], _Sum],
    row: dict[str, str],
    where: str,
    cost_column: str,
) -> None:
    cost = _cost(row[cost_column], f"{where}, column {cost_column}")
    currency = row["BillingCurrency"]
    if not _CURRENCY.fullmatch(currency):
        raise InvalidRequest(
            f"{where}, column BillingCurrency: {currency[:20]!r}; three letters of A to Z required"
        )
    begins = _time(row["ChargePeriodStart"], f"{where}, column ChargePeriodStart")
    ends = _time(row["ChargePeriodEnd"], f"{where}, column ChargePeriodEnd")
    if ends <= begins:
        raise InvalidRequest(f"{where}, column ChargePeriodEnd: it is not after ChargePeriodStart")
    category, name = row["ServiceCategory"], row["ServiceName"]
    if not category:
        raise InvalidRequest(f"{where}, column ServiceCategory: empty; FOCUS requires it")
    if not name or not name.isprintable() or len(name) > _NAME_MAX:
        raise InvalidRequest(f"{where}, column ServiceName: 1 to {_NAME_MAX} printable characters required")
    month = begins.replace(day=1, hour=0, minute=0, second=0)
    within = ends <= month_after(month)
    times = (month, month_after(month)) if within else (begins, ends)
    key = (KINDS.get(category, Kind.OTHER), name, currency, *times)
    known = sums.get(key)
    if known is None:
        sums[key] = _Sum(begins, ends, cost)
    else:
        known.begins, known.ends = min(known.begins, begins), max(known.ends, ends)
        known.cost += cost
        if abs(known.cost) > COST_MAX:
            raise InvalidRequest(
                f"{where}, column {cost_column}: {name!r} costs more than {COST_MAX} together"
            )


def _cost(text: str, where: str) -> Fraction:
    if not _NUMBER.fullmatch(text):
        raise InvalidRequest(f"{where}: {text[:40]!r} is no decimal number")
    cost = Fraction(text)
    if abs(cost) > COST_MAX or 10**PLACES_MAX % cost.denominator:
        raise InvalidRequest(f"{where}: {text[:40]!r}; at most {COST_MAX} with {PLACES_MAX} places allowed")
    return cost


def _time(text: str, where: str) -> datetime:
    found = _TIME.fullmatch(text)
    if found is None:
        raise InvalidRequest(f"{where}: {text[:40]!r} is not a UTC time like 2026-11-01T00:00:00Z")
    try:
        at = datetime(*(int(part) for part in found.groups()), tzinfo=UTC)  # type: ignore[arg-type, misc]
    except ValueError:
        raise InvalidRequest(f"{where}: {text[:40]!r} is no time that there is") from None
    if not 1970 <= at.year <= 9990:
        raise InvalidRequest(f"{where}: {text[:40]!r}; within the years 1970 to 9990 required")
    return at


def _order(one: CostSum) -> tuple[object, ...]:
    return one.begins, one.ends, one.currency, one.kind.value, one.name


def _decimal(value: Fraction) -> str:
    """Exact: sums of decimals end."""
    sign, left = ("-" if value < 0 else ""), abs(value)
    whole, left = divmod(left, 1)
    places = ""
    while left:
        digit, left = divmod(left * 10, 1)
        places += str(digit)
    return f"{sign}{whole}{'.' + places if places else ''}"
