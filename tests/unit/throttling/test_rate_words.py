"""A refusal by a rate says the whole limit, this broker's share, when to come again and who can raise it."""

import pytest

from data_plane.throttling.pacing import Pace
from data_plane.throttling.rate_words import rate_words


@pytest.mark.parametrize(
    ("principal", "topic", "whose", "raised_by"),
    [
        ("", "", "the tenant", "an operator of the service"),
        ("service_account:sa_1", "", "principal sa_1", "an owner or admin of the tenant"),
        ("", "orders", "topic orders", "a person of the tenant who is owner, admin or billing"),
    ],
)
def test_each_scope_is_named_with_those_who_can_raise_its_limit(
    principal: str, topic: str, whose: str, raised_by: str
) -> None:
    pace = Pace(2_001)
    pace.limit_per_s = 6_000
    pace.principal = principal
    pace.topic = topic
    assert rate_words("produce_bytes_per_s", pace, 40) == (
        f"produce_bytes_per_s: {whose} may use 6000 a second over all brokers, and this broker's share now, 2001, is"
        f" all used; clears in 40 ms, or once {raised_by} raises it"
    )
