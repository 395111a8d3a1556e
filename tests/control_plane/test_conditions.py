"""Conditions of a desired object: one a type, in order, and `since` tells when its reason began."""

from datetime import UTC, datetime, timedelta

from control_plane.outbox import conditions

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def test_a_condition_keeps_its_time_while_its_reason_stays() -> None:
    first = conditions.put([], conditions.DELIVERY, "refused", "no", NOW)
    assert first == [{"type": "delivery", "reason": "refused", "message": "no", "since": NOW.isoformat()}]
    again = conditions.put(first, conditions.DELIVERY, "refused", "still no", LATER)
    assert again == [{**first[0], "message": "still no"}]
    other = conditions.put(again, conditions.DELIVERY, "unreachable", "nobody", LATER)
    assert [(one["reason"], one["since"]) for one in other] == [("unreachable", LATER.isoformat())]


def test_conditions_of_other_types_stay_and_stand_in_order() -> None:
    some = conditions.put([], conditions.RECREATED, "gone", "made again", NOW)
    some = conditions.put(some, conditions.DELIVERY, "gone", "no", LATER)
    assert [(one["type"], one["since"]) for one in some] == [
        ("delivery", LATER.isoformat()),
        ("recreated", NOW.isoformat()),
    ]
    assert conditions.without(some, conditions.DELIVERY) == some[1:]
    assert conditions.without(some, conditions.DRIFT) == some


def test_a_condition_is_there_by_type_and_message_as_far_as_it_is_kept() -> None:
    long = "x" * (conditions.MESSAGE_LENGTH_MAX + 1)
    some = conditions.put([], conditions.DRIFT, "differs", long, NOW)
    assert some[0]["message"] == long[:-1]
    assert conditions.has(some, conditions.DRIFT, long)
    assert not conditions.has(some, conditions.DRIFT, "other")
    assert not conditions.has(some, conditions.DELIVERY, long)
    assert not conditions.has([], conditions.DRIFT, long)
