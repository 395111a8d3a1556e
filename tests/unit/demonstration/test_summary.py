"""The demo succeeds only when every number agrees."""

from dataclasses import replace
from typing import Any

import pytest

from demo.limited import Stopped
from demo.payment import Payment
from demo.summary import Summary

PAID = Payment(
    tenant="UA", invoices=("inv_1",), states=("paid",), invoiced_cents=6_857, collected_cents=6_857
)
GOOD = Summary(
    tenants=16,
    produced=1_000,
    consumed_distinct=1_000,
    duplicates_in_log=0,
    order_violations=0,
    metered_messages=1_000,
    invoiced_messages=1_000,
    metered_bytes=5,
    log_bytes=5,
    invoiced_by_month={"2026-11": 1_000},
    invoiced_bytes=5,
    delivered_received=1_010,
    delivered_metered=990,
    delivered_waived_max=20,
    invoices=16,
    verified_invoices=16,
    broker_killed=2,
    acked_before_kill=1,
    acked_while_down=1,
    leaders_moved=1,
    budget_messages=2_000,
    budget_sent=1_990,
    budget_stopped=True,
    payment=PAID,
    seconds={},
)


def test_what_agrees_agrees() -> None:
    assert GOOD.disagreements(1_000, 16) == []


@pytest.mark.parametrize(
    ("sent", "said", "stopped"),
    [
        (2_000, "budget 'limited': 2000 of 2000", True),
        (1_980, "budget 'limited'", True),
        (2_021, "budget 'limited'", False),
        (1_000, "budget 'limited'", False),
        (2_000, "produce_bytes_per_s", False),
    ],
)
def test_a_budget_has_stopped_a_tenant_near_its_amount_and_by_its_name(
    sent: int, said: str, stopped: bool
) -> None:
    assert Stopped(sent=sent, said=said).at_its_amount is stopped


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tenants", 15),
        ("produced", 999),
        ("consumed_distinct", 999),
        ("duplicates_in_log", 1),
        ("order_violations", 1),
        ("metered_messages", 1_001),
        ("invoiced_messages", 0),
        ("metered_bytes", 4),
        ("log_bytes", 6),
        ("invoiced_bytes", 0),
        ("delivered_metered", 1_011),
        ("delivered_metered", 989),
        ("invoices", 15),
        ("verified_invoices", 15),
        ("acked_before_kill", 0),
        ("acked_while_down", 0),
        ("leaders_moved", 0),
        ("budget_stopped", False),
        ("payment", replace(PAID, collected_cents=6_856)),
    ],
)
def test_each_number_that_is_wrong_is_named(field: str, value: int) -> None:
    wrong: dict[str, Any] = {field: value}
    found = replace(GOOD, **wrong).disagreements(1_000, 16)
    named = "bytes" if field.endswith("bytes") else "verified_invoices" if field == "invoices" else field
    assert any(named in line for line in found)
