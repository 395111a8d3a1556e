"""A month's document follows from its evidence, and each number that does not is named."""

from typing import Any

import pytest
from msgspec import UNSET

from penstock.contract import documents
from penstock.contract.service_level_documents import ChargedInvoice, Excluded, ServiceLevelDocument
from penstock.rules.service_level_months import (
    day_parts,
    differences,
    excluded_lines,
    latency_shown,
    level_of,
    month_document,
)
from penstock.rules.service_levels import (
    ALL_SECONDS,
    DAY_S,
    OPERATIONS,
    PREMIUM_1,
    STANDARD_1,
    WHOLE,
    Counts,
    FailedMinute,
    ServiceLevel,
    latency_month,
    operation_month,
)

BOUNDS = (0, 3 * DAY_S)
OUT = Excluded(id="exc_1", from_s=DAY_S, until_s=DAY_S + 600, reason="drill", announced_s=DAY_S - 3_600)


def made() -> dict[str, Any]:
    """Two windows with failures, one of probes, one run of two minutes, and an excluded span."""
    own = {0: Counts(valid=100), 300: Counts(valid=100, bad=50), 600: Counts(valid=5, bad=5)}
    failed = [
        FailedMinute(minute=minute, valid=10, bad=10, succeeded_seconds=0, failed_seconds=ALL_SECONDS)
        for minute in (5, 6)
    ]
    probes = {2 * DAY_S: Counts(valid=10, bad=1)}
    document = month_document(
        tenant="tn_acme",
        month="1970-01",
        bounds_s=BOUNDS,
        level=STANDARD_1,
        excluded=[OUT],
        operations=[
            operation_month(name, BOUNDS, own, probes, failed, [(OUT.from_s, OUT.until_s)])
            for name in OPERATIONS
        ],
        latency=None,
        invoices=[],
        currency="USD",
        minor_digits=6,
    )
    return dict(documents.plain(document))


def made_with_latency() -> dict[str, Any]:
    """Three windows that are judged, two of them too slow; one of few requests and one that is excluded."""
    own = {
        0: Counts(valid=1_000, bad=0), 300: Counts(valid=210, bad=10), 600: Counts(valid=100, bad=0),
        900: Counts(valid=99, bad=0), DAY_S: Counts(valid=1_000),
    }  # fmt: skip
    slow = {0: 10, 300: 3, 600: 2, 900: 99, DAY_S: 500}
    out = [(OUT.from_s, OUT.until_s)]
    document = month_document(
        tenant="tn_acme",
        month="1970-01",
        bounds_s=BOUNDS,
        level=PREMIUM_1,
        excluded=[OUT],
        operations=[operation_month(name, BOUNDS, own, {}, (), out) for name in OPERATIONS],
        latency=latency_month(BOUNDS, own, slow, out),
        invoices=[],
        currency="USD",
        minor_digits=6,
    )
    return dict(documents.plain(document))


def test_an_invoice_that_was_credited_over_its_whole_lowers_no_other_one() -> None:
    """An operator granted all of it, and then a loss was credited as it had been billed."""
    over = ChargedInvoice(
        id="inv_1", document_sha256="a" * 64, charge_micro=700, credited_micro=900, void=UNSET
    )
    other = ChargedInvoice(
        id="inv_2", document_sha256="b" * 64, charge_micro=1_000, credited_micro=0, void=UNSET
    )
    for invoices, charge in (((over,), 0), ((over, other), 1_000)):
        document = month_document(
            tenant="tn_acme",
            month="1970-01",
            bounds_s=BOUNDS,
            level=STANDARD_1,
            excluded=[],
            operations=[
                operation_month(name, BOUNDS, {0: Counts(valid=10, bad=9)}, {}, [], []) for name in OPERATIONS
            ],
            latency=None,
            invoices=invoices,
            currency="USD",
            minor_digits=6,
        )
        assert document.charge_micro == charge
        assert differences_of(dict(documents.plain(document))) == []


def differences_of(plain: dict[str, Any]) -> list[str]:
    return list(differences(documents.read_document(plain, ServiceLevelDocument, "document")))


def test_a_document_follows_from_itself() -> None:
    assert differences_of(made()) == []
    assert made()["format"] == 4 and not {"latency"} & {*made(), *made()["level"]}


def test_a_month_with_latencies_follows_from_itself_and_the_higher_credit_counts() -> None:
    """Of the month's requests 99.994 % are good, of its windows 2 of 862 are too slow: both as promised."""
    plain = made_with_latency()
    assert differences_of(plain) == []
    assert plain["latency"] == {
        "judged": 3, "parts": 997_679_814,
        "missed": [{"window_s": 300, "good": 200, "slow": 3}, {"window_s": 600, "good": 100, "slow": 2}],
    }  # fmt: skip
    assert (plain["format"], plain["basis_points"]) == (4, 0)
    document = documents.read_document(plain, ServiceLevelDocument, "document")
    assert level_of(document.level) == PREMIUM_1
    assert latency_shown(document) == {
        "within_ms": 250, "target_parts": 990_000_000, "judged": 3, "missed": 2, "parts": 997_679_814,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("latency", "parts"), WHOLE, "latency parts is 1000000000, its evidence gives 997679814"),
        (("latency", "judged"), 5, "latency: judged is 5, with 2 windows too slow and 4 judged"),
        (("latency", "judged"), 1, "latency: judged is 1"),
        (("latency", "missed"), [], "latency parts is"),
        (("latency", "missed", 0, "slow"), 2, "window 300: 2 of 200 slow requests do not miss"),
        (("latency", "missed", 0, "slow"), 201, "window 300: 201 of 200"),
        (("latency", "missed", 0, "good"), 199, "window 300: 199 good requests, its window of produce has 200"),
        (("latency", "missed", 1, "good"), 99, "window 600: 2 of 99"),
        (("latency", "missed", 1, "window_s"), 300, "stands twice"),
        (("latency", "missed", 1, "window_s"), DAY_S, "is not one of the month, or excluded"),
        (("operations", 0, "valid"), 310, "judged windows have 400 good requests at least, the month 300"),
        (("level", "latency", "within_ms"), 500, "premium 1 is known, and has other tiers"),
        (("level", "latency", "within_ms"), 251, "level: "),
        (("level", "latency", "target_parts"), 1, "level: "),
        (("basis_points",), 2_500, "basis_points is 2500, its evidence gives 0"),
        (("format",), 1, "latency: format 2 required"),
        (("format",), 2, "latency parts is 997679814, its evidence gives 333333333"),
    ],
)  # fmt: skip
def test_an_altered_number_of_latencies_is_named(path: tuple[Any, ...], value: Any, named: str) -> None:
    plain = made_with_latency()
    holder: Any = plain
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    found = differences_of(plain)
    assert any(named in text for text in found), found


def test_latencies_that_were_not_promised_or_were_left_out_are_named() -> None:
    plain = made_with_latency()
    del plain["latency"]
    assert any("latency: format 4 required" in text for text in differences_of(plain))
    other = made() | {"latency": {"judged": 0, "missed": [], "parts": None}}
    assert any("latency: format 4 required" in text for text in differences_of(other))


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("operations", 0, "mean_parts"), WHOLE, "produce: mean_parts is 1000000000, its evidence gives 998143851"),
        (("operations", 1, "mean_parts"), None, "fetch: mean_parts is none"),
        (("operations", 0, "minutes_parts"), WHOLE, "produce: minutes_parts"),
        (("operations", 0, "runs_parts"), 1, "produce: runs_parts is 1"),
        (("operations", 0, "down_minutes"), 0, "produce: minutes_parts"),
        (("operations", 0, "runs"), [], "produce: runs_parts"),
        (("operations", 0, "runs", 0, "until_s"), 330, "too short"),
        (("operations", 0, "imperfect", 0, "bad"), 49, "produce: mean_parts"),
        (("operations", 0, "imperfect", 0, "bad"), 101, "101 of 100 requests failed"),
        (("operations", 0, "imperfect", 0, "window_s"), 301, "is not one of the month"),
        (("operations", 0, "imperfect", 0, "window_s"), DAY_S, "is not one of the month, or excluded"),
        (("operations", 0, "imperfect", 1, "window_s"), 300, "stands twice"),
        (("operations", 0, "imperfect", 1, "source"), "own", "no reason to be judged by own"),
        (("operations", 0, "imperfect"), [], "produce: mean_parts"),
        (("operations", 0, "windows", "nothing"), 0, "windows is"),
        (("operations", 0, "windows", "own"), 500, "windows is"),
        (
            ("operations", 0, "windows"), {"own": 0, "probe": 1, "few": 3, "nothing": 858, "excluded": 2},
            "windows own is 0, and 1 of them had failures",
        ),
        (("operations", 0, "windows", "excluded"), 1, "windows excluded is 1, its evidence gives 2"),
        (("operations", 0, "days", 0, "judged"), 4, "windows of days is"),
        (("operations", 0, "days", 0, "day_s"), 60, "a day stands twice"),
        (("operations", 0, "bad"), 54, "bad is 54"),
        (("operations", 0, "valid"), 104, "valid is 104"),
        (("operations",), [], "operations: produce, fetch, metadata required"),
        (("until_s",), 3 * DAY_S + 1, "bounds of five-minute windows"),
        (("excluded",), [], "windows excluded is 2, its evidence gives 0"),
        (("binding_parts",), WHOLE, "binding_parts is 1000000000"),
        (("basis_points",), 0, "basis_points is 0, its evidence gives 1000"),
        (("excluded", 0, "announced_s"), DAY_S + 1, "begins at 86400, and was announced afterwards, at 86401"),
        (("excluded", 0, "until_s"), DAY_S + 97 * 300, "excluded: 97 windows, at most 96 of a month may be"),
        (("format",), 1, "format 4 says when it was announced, and no other does"),
        (("level", "tiers", 2, "basis_points"), 3_000, "standard 1 is known, and has other tiers"),
        (("charge_micro",), 7, "charge_micro is 7, its evidence gives 0"),
        (("credit_micro",), 7, "credit_micro is 7, its evidence gives 0"),
        (("grant",), "sla-1970-02", "grant is sla-1970-02"),
    ],
)  # fmt: skip
def test_an_altered_number_is_named(path: tuple[Any, ...], value: Any, named: str) -> None:
    plain = made()
    holder: Any = plain
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    found = differences_of(plain)
    assert any(named in text for text in found), found


def test_days_have_the_lower_share_and_those_without_a_measure_none() -> None:
    document = documents.read_document(made(), ServiceLevelDocument, "document")
    assert day_parts(document) == {
        0: (288 - 1.5) * WHOLE // 288,
        2 * DAY_S: (288 * WHOLE - WHOLE // 10) // 288,
    }


def test_a_month_of_before_keeps_its_shares_of_judged_windows_and_its_credit() -> None:
    plain = made()
    del plain["excluded"][0]["announced_s"]
    for one in plain["operations"]:
        one |= {"mean_parts": 600_000_000, "minutes_parts": 900_000_000, "runs_parts": 900_000_000}
    plain |= {"format": 1, "binding_parts": 600_000_000, "basis_points": 10_000}
    assert differences_of(plain) == []
    document = documents.read_document(plain, ServiceLevelDocument, "document")
    assert day_parts(document) == {0: WHOLE // 2, 2 * DAY_S: 900_000_000}


def test_what_was_excluded_is_said_with_when_it_was_announced() -> None:
    document = documents.read_document(made(), ServiceLevelDocument, "document")
    assert excluded_lines(document) == [
        "1970-01-02 00:00Z to 1970-01-02 00:10Z is excluded, announced 1970-01-01 23:00Z: drill"
    ]


CHARGE = 60_000_000
"""60 USD, in micro-units."""
FEBRUARY = (0, 28 * DAY_S)


def credited(
    own: dict[int, Counts], level: ServiceLevel = STANDARD_1, slow: dict[int, int] | None = None
) -> int:
    """What a month of 8,064 windows at that charge credits."""
    document = month_document(
        tenant="tn_acme",
        month="1970-02",
        bounds_s=FEBRUARY,
        level=level,
        excluded=(),
        operations=[operation_month(name, FEBRUARY, own, {}, (), ()) for name in OPERATIONS],
        latency=None if level.latency is None else latency_month(FEBRUARY, own, slow or {}, ()),
        invoices=[
            ChargedInvoice(id="inv_1", document_sha256="0" * 64, charge_micro=CHARGE, credited_micro=0)
        ],
        currency="USD",
        minor_digits=2,
    )
    assert list(differences(document)) == []
    return document.credit_micro


def test_one_bad_minute_among_few_requests_credits_no_month() -> None:
    assert credited({0: Counts(valid=100), 300: Counts(valid=100, bad=20)}) == 0
    assert credited({0: Counts(valid=1, bad=1)}) == 0, "one request in the month, and it failed"
    one_slow = {0: Counts(valid=100)}
    assert credited(one_slow, PREMIUM_1, {0: 50}) == 0, "nor does one slow window"


@pytest.mark.parametrize(
    ("windows", "credit"),
    [(4, 0), (5, 6_000_000), (80, 6_000_000), (81, 15_000_000), (403, 15_000_000), (404, 60_000_000)],
)
def test_an_outage_credits_by_its_part_of_the_month_however_little_was_judged(
    windows: int, credit: int
) -> None:
    """8,064 windows: 0.05 % of them are 4.03, 1 % are 80.64, 5 % are 403.2."""
    bad = {300 * at: Counts(valid=100, bad=100) for at in range(windows)}
    good = {300 * at: Counts(valid=100) for at in range(windows, 8_064)}
    assert credited(bad) == credited(bad | good) == credit
