"""Arguments of producers and consumers are checked where they are given, by name."""

from __future__ import annotations

import pytest

from penstock.client.arguments import consumer_settings, producer_settings
from penstock.client.consuming.fetch_position import seek_target
from penstock.client.settings import acks_number
from penstock.contract.errors import ConfigurationError, InvalidRequest
from tests.unit.client.runner import CONSUMER, PRODUCER


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("acks", 2),
        ("acks", "most"),
        ("acks", ["all"]),
        ("compression", "brotli"),
        ("linger_ms", -1),
        ("linger_ms", True),
        ("batch_bytes", 0),
        ("batch_bytes", 13 * 1024 * 1024),
        ("batch_messages", 0),
        ("delivery_timeout_ms", 0),
        ("buffer_bytes", 0),
        ("max_attempts", 0),
        ("on_full", "explode"),
        ("retry_backoff_max_ms", 1),
        ("linger_ms", "5"),
        ("batch_bytes", 1.5),
        ("batch_messages", "many"),
        ("buffer_bytes", 2.5),
        ("max_attempts", 1.0),
        ("idempotent", "yes"),
    ],
)
def test_a_producers_argument_out_of_its_bounds_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}: "):
        producer_settings(**{**PRODUCER, name: value})  # type: ignore[arg-type]


def test_acks_are_named_as_people_name_them() -> None:
    assert [acks_number(acks) for acks in ("all", 1, 0, "1", "0")] == [-1, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"group": ""}, "group: '' is no text"),
        ({"group": "readers", "topics": ()}, "topics: a member of a group names at least one"),
        ({"group": "readers", "assignor": "fair"}, "assignor: 'fair' is not one of range, sticky"),
        ({"group": "readers", "session_timeout_ms": 10}, "session_timeout_ms: 10 is not within"),
        ({"instance_id": "one"}, "instance_id: needs a consumer group"),
        ({"auto_commit": True}, "auto_commit: needs a consumer group"),
        ({"auto_offset_reset": "newest"}, "auto_offset_reset: 'newest' is not one of"),
        ({"fetch_bytes": 0}, "fetch_bytes: 0 is not within"),
        ({"partition_fetch_bytes": 1 << 40}, "partition_fetch_bytes: "),
        ({"fetch_bytes": 2.5}, "fetch_bytes: 2.5 is not a whole number"),
        ({"topics": 7}, "topics: 7 is not a topic name"),
        ({"topics": [5]}, "topics: "),
        ({"topics": [""]}, "topics: "),
    ],
)
def test_a_consumers_argument_that_is_not_offered_or_wrong_is_named(
    changed: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{message}"):
        consumer_settings(**{"topics": "orders", **CONSUMER, **changed})  # type: ignore[arg-type]


def test_topics_are_one_name_or_several() -> None:
    assert consumer_settings(topics="a", **CONSUMER)[0] == ("a",)  # type: ignore[arg-type]
    assert consumer_settings(topics=["a", "b", "a"], **CONSUMER)[0] == ("a", "b")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "place",
    [
        (None, None, None),
        (1, 2, None),
        (1, None, "end"),
        (-1, None, None),
        (None, -5, None),
        (None, None, "middle"),
    ],
)
def test_a_seek_has_exactly_one_place(place: tuple[int | None, int | None, object]) -> None:
    with pytest.raises(InvalidRequest, match=r"^seek: "):
        seek_target(*place)  # type: ignore[arg-type]
