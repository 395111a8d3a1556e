"""Whom a broker refuses: what the controller said last, for a time, and not against the limit that is known here."""

from data_plane.storage_limits.reports import Full
from data_plane.storage_limits.standing import HOLDS_MS, StorageRefusal, StorageStanding
from penstock.contract.ids import TenantId

ACME = TenantId("acme")


def standing() -> StorageStanding:
    made = StorageStanding()
    made.answered([Full(ACME, 1_001)], 0.0)
    return made


def test_the_refusal_names_limit_scope_use_and_what_clears_it() -> None:
    assert standing().refusal(ACME, 1_000, 0, 1.0) == StorageRefusal(
        limit="storage_bytes_max",
        text="storage_bytes_max: the tenant's topics keep 1001 bytes of one copy, at most 1000 allowed; clears when"
        " retention or deletion has freed space, or once an operator of the service raises it",
    )
    assert not standing().refusal(TenantId("other"), 1_000, 0, 1.0)


def test_a_ceiling_of_cost_is_named_where_it_is_what_stops_the_tenant() -> None:
    refusal = standing().refusal(ACME, 10**12, 1_000, 1.0)
    assert refusal == StorageRefusal(
        limit="cost_ceiling",
        text="cost_ceiling: the tenant's topics keep 1001 bytes of one copy, at most 1000 allowed while its month is"
        " expected to cost more than a budget that stops growth allows; clears when retention or deletion has freed"
        " space, or less cost is expected, or once a person of the tenant who is owner, admin or billing raises it",
    )
    without_limit, lower = standing().refusal(ACME, 0, 1_000, 1.0), standing().refusal(ACME, 999, 1_000, 1.0)
    assert without_limit == refusal and lower is not None and lower.limit == "storage_bytes_max"


def test_who_is_named_no_more_may_produce() -> None:
    made = standing()
    made.answered([], 5.0)
    assert not made.refusal(ACME, 1_000, 0, 6.0) and made.full(6.0) == []


def test_a_limit_that_was_raised_here_counts_at_once() -> None:
    made = standing()
    assert made.refusal(ACME, 1_052, 0, 1.0), "a twentieth of the limit is to be free"
    assert not made.refusal(ACME, 1_055, 0, 1.0) and not made.refusal(ACME, 0, 0, 1.0)
    assert made.full(1.0) == [ACME], "the controller hears of it all the same"


def test_without_answers_no_one_is_refused_for_longer_than_what_was_said_holds() -> None:
    made = standing()
    assert made.refusal(ACME, 1_000, 0, HOLDS_MS - 1)
    assert not made.refusal(ACME, 1_000, 0, HOLDS_MS) and made.full(HOLDS_MS) == []
