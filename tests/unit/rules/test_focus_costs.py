"""A FOCUS export becomes costs that add up to it, and a wrong one is refused by row and column."""

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.errors import InvalidRequest
from penstock.rules import focus_costs
from penstock.rules.allocation import Kind

HEADER = "BilledCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,EffectiveCost,ServiceCategory,ServiceName,Tags"


def row(cost: str, service: str = "EC2", category: str = "Compute", day: int = 3, **cells: str) -> str:
    found = {
        "billed": "0", "currency": "USD",
        "start": f"2026-11-{day:02}T00:00:00Z", "end": f"2026-11-{day + 1:02}T00:00:00Z",
        "cost": cost, "category": category, "service": service, "tags": '"{""a"": ""b,c""}"',
    } | cells  # fmt: skip
    return ",".join(found.values())


def read(*rows: str, column: str = "EffectiveCost") -> focus_costs.Export:
    return focus_costs.read([f"{line}\n" for line in (HEADER, *rows)], column)


def found(*rows: str) -> list[tuple[Kind, str, str, int]]:
    return [(one.kind, one.name, one.currency, one.cost_micro) for one in focus_costs.costs(read(*rows))]


def test_services_are_summed_by_month_kind_and_currency() -> None:
    services = (
        ("2", "S3", "Storage", Kind.DISK),
        ("3", "Transfer", "Networking", Kind.TRAFFIC),
        ("4", "EKS", "Containers", Kind.HOSTS),
        ("5", "Support", "Other", Kind.OTHER),
    )
    rows = [row(cost, name, category) for cost, name, category, _ in services]
    rows += [row("6", "RDS", "Databases", currency="EUR"), row("1.5"), row("0.25", day=9)]
    assert set(found(*rows)) == {
        *((kind, name, "USD", int(cost) * 1_000_000) for cost, name, _, kind in services),
        (Kind.OTHER, "RDS", "EUR", 6_000_000),
        (Kind.HOSTS, "EC2", "USD", 1_750_000),
    }


def test_a_cost_has_the_time_of_its_rows_and_one_over_several_months_stays_apart() -> None:
    year = row("12", start="2026-11-15T00:00:00Z", end="2027-11-15T00:00:00Z")
    first, second = focus_costs.costs(read(row("1"), row("1", day=20), year))
    assert (first.begins, first.ends) == (
        datetime(2026, 11, 3, tzinfo=UTC),
        datetime(2026, 11, 21, tzinfo=UTC),
    )
    assert (second.ends, second.cost_micro) == (datetime(2027, 11, 15, tzinfo=UTC), 12_000_000)


def test_billed_cost_is_taken_where_it_is_asked_for() -> None:
    export = read(row("1", billed="7"), column="BilledCost")
    assert [one.cost_micro for one in focus_costs.costs(export)] == [7_000_000]


def test_credits_lower_their_own_service_first_and_then_the_largest() -> None:
    rows = [row("5"), row("10", "S3", "Storage"), row("-7"), row("-1", "Gone", "Other")]
    assert found(*rows) == [(Kind.DISK, "S3", "USD", 7_000_000)]
    over_months = row("-2", start="2026-11-15T00:00:00Z", end="2026-12-15T00:00:00Z")
    own = found(row("5"), row("10", "S3", "Storage"), over_months)
    assert set(own) == {(Kind.HOSTS, "EC2", "USD", 3_000_000), (Kind.DISK, "S3", "USD", 10_000_000)}
    with pytest.raises(InvalidRequest, match=r"2026-11 costs -2 USD: its credits exceed its costs"):
        focus_costs.costs(read(row("5"), row("-7")))


@given(
    st.lists(
        st.tuples(st.integers(-(10**7), 5 * 10**7), st.sampled_from("abc"), st.integers(0, 12)),
        min_size=1,
        max_size=12,
    )
)
def test_costs_add_up_to_the_file_to_the_micro_unit(rows: Sequence[tuple[int, str, int]]) -> None:
    lines = [row(f"{number}e-{places}", service) for number, service, places in rows]
    export = read(*lines)
    total = sum((Fraction(number, 10**places) for number, _, places in rows), Fraction(0))
    if total < 0:
        with pytest.raises(InvalidRequest):
            focus_costs.costs(export)
        return
    costs = focus_costs.costs(export)
    assert sum(one.cost_micro for one in costs) == (2 * total * 10**6 + 1) // 2
    assert all(one.cost_micro > 0 for one in costs)
    small = focus_costs.read(focus_costs.compact(export))
    assert (small.sums, small.sha256) == (export.sums, export.sha256)
    assert read(*reversed(lines)).sha256 == export.sha256, "in whichever order rows come"


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ([], "csv: it is empty"), ([HEADER], "no row below"),
        ([HEADER.replace("ServiceName", "Name"), ""], "row 1: no column ServiceName"),
        ([f"{HEADER},ServiceName", row("1")], "row 1: column ServiceName stands there twice"),
        ([HEADER, row("1"), row("much")], "row 3, column EffectiveCost: 'much'"),
        *(([HEADER, row(cost)], "row 2, column EffectiveCost") for cost in ("", "NaN", "1e40", "1e-40")),
        ([HEADER, row("1", currency="usd")], "row 2, column BillingCurrency"),
        ([HEADER, row("1", start="2026-11-03")], "row 2, column ChargePeriodStart"),
        ([HEADER, row("1", start="2026-11-31T00:00:00Z")], "row 2, column ChargePeriodStart"),
        ([HEADER, row("1", end="2026-11-03T00:00:00Z")], "row 2, column ChargePeriodEnd"),
        ([HEADER, row("1", "")], "row 2, column ServiceName"),
        ([HEADER, row("1", category="")], "row 2, column ServiceCategory"),
        ([HEADER, "1,2"], "row 2: 2 cells, the header has 8"), ([HEADER, row("1", tags='"open')], "row 2"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_by_row_and_column(lines: list[str], named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        focus_costs.costs(focus_costs.read([f"{line}\n" for line in lines]))
    assert named in refused.value.message


def test_a_file_of_too_many_services_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="row 1002: more than 1000 different"):
        read(*(row("1", f"service-{n}") for n in range(1_001)))


@pytest.mark.parametrize("header", [HEADER, ",".join(f'"{name}"' for name in HEADER.split(","))])
def test_a_byte_order_mark_is_no_part_of_the_header_quoted_or_not(header: str) -> None:
    export = focus_costs.read([f"\ufeff{header}\n", f"{row('1', billed='2')}\n"], "BilledCost")
    assert [one.cost for one in export.sums] == [2]


def test_a_row_up_to_the_end_of_its_month_is_within_it_and_one_of_an_hour_more_is_not() -> None:
    month = row("3", start="2026-11-02T00:00:00Z", end="2026-12-01T00:00:00Z")
    assert len(read(month, row("1")).sums) == 1
    longer = row("3", start="2026-11-02T00:00:00Z", end="2026-12-01T01:00:00Z")
    assert len(read(longer, row("1")).sums) == 2


def test_a_credit_lowers_its_own_kind_of_a_service_first() -> None:
    rows = (
        row("9", category="Storage"),
        row("2"),
        row("-1", start="2026-11-29T00:00:00Z", end="2026-12-02T00:00:00Z"),
    )
    assert set(found(*rows)) == {(Kind.DISK, "EC2", "USD", 9_000_000), (Kind.HOSTS, "EC2", "USD", 1_000_000)}
