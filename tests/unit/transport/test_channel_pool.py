"""A client opens another connection before one is full, and uses room again that has become free."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.contract import limits
from penstock.transport.channel_pool import (
    CHANNELS_PER_ADDRESS_MAX,
    STREAMS_PER_CHANNEL,
    UNDER_WAY_PER_CHANNEL,
    ChannelPool,
)


class Call:
    """A call on a channel, done when told."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self._listeners: list[Callable[[Any], None]] = []

    def add_done_callback(self, tell: Callable[[Any], None]) -> None:
        self._listeners.append(tell)

    def done(self) -> None:
        for tell in self._listeners:
            tell(self)


@pytest.fixture
def made() -> list[str]:
    return []


@pytest.fixture
def pool(made: list[str]) -> ChannelPool[str]:
    def make(address: str) -> str:
        made.append(f"{address}/{len(made)}")
        return made[-1]

    return ChannelPool(make)


def test_calls_and_streams_share_a_channel(pool: ChannelPool[str], made: list[str]) -> None:
    assert pool.for_stream("a", Call).channel == "a/0"
    assert [pool.for_call("a", Call).channel for _ in range(2)] == ["a/0"] * 2
    assert pool.for_call("b", Call).channel == "b/1"
    assert made == ["a/0", "b/1"]


def test_no_channel_has_more_calls_under_way_than_a_broker_takes(
    pool: ChannelPool[str], made: list[str]
) -> None:
    calls = [pool.for_call("a", Call) for _ in range(300)]
    counts = [sum(call.channel == one for call in calls) for one in made]
    assert counts == [UNDER_WAY_PER_CHANNEL] * 3 + [300 - 3 * UNDER_WAY_PER_CHANNEL]
    assert UNDER_WAY_PER_CHANNEL < limits.STREAMS_PER_CONNECTION_MAX
    for call in calls:
        call.done()
    assert [pool.for_call("a", Call).channel for _ in range(5)] == ["a/0"] * 5


def test_streams_leave_capacity_for_calls_and_calls_count_for_streams(
    pool: ChannelPool[str], made: list[str]
) -> None:
    for _ in range(STREAMS_PER_CHANNEL):
        pool.for_stream("a", Call)
    calls = [pool.for_call("a", Call) for _ in range(UNDER_WAY_PER_CHANNEL - STREAMS_PER_CHANNEL + 1)]
    assert [call.channel for call in calls[-2:]] == ["a/0", "a/1"]
    for _ in range(UNDER_WAY_PER_CHANNEL - 1):
        pool.for_call("a", Call)
    assert pool.for_stream("a", Call).channel == "a/2"


def test_a_channel_that_is_full_gets_a_second_one_beside_it(pool: ChannelPool[str], made: list[str]) -> None:
    calls = [pool.for_stream("a", Call) for _ in range(2 * STREAMS_PER_CHANNEL + 1)]
    assert [calls[0].channel, calls[STREAMS_PER_CHANNEL].channel, calls[-1].channel] == ["a/0", "a/1", "a/2"]
    assert [sum(call.channel == one for call in calls) for one in made] == [STREAMS_PER_CHANNEL] * 2 + [1]


def test_room_of_a_stream_that_ended_is_used_again(pool: ChannelPool[str], made: list[str]) -> None:
    calls = [pool.for_stream("a", Call) for _ in range(STREAMS_PER_CHANNEL + 1)]
    calls[3].done()
    assert pool.for_stream("a", Call).channel == "a/0"
    assert pool.for_stream("a", Call).channel == "a/1"
    assert made == ["a/0", "a/1"]


def test_an_address_has_a_bounded_number_of_channels_and_the_least_used_one_takes_what_is_more(
    pool: ChannelPool[str], made: list[str]
) -> None:
    most = CHANNELS_PER_ADDRESS_MAX * STREAMS_PER_CHANNEL
    calls = [pool.for_stream("a", Call) for _ in range(most)]
    more = [pool.for_stream("a", Call) for _ in range(2 * CHANNELS_PER_ADDRESS_MAX)]
    assert len(made) == CHANNELS_PER_ADDRESS_MAX
    assert [sum(call.channel == one for call in more) for one in made] == [2] * CHANNELS_PER_ADDRESS_MAX
    assert pool.for_call("b", Call).channel.startswith("b/"), "another address has its own"
    calls[-1].done()
    assert pool.for_stream("a", Call).channel == calls[-1].channel


def test_a_call_that_cannot_begin_takes_no_room(pool: ChannelPool[str], made: list[str]) -> None:
    def fails(channel: str) -> None:
        raise ValueError(channel)

    for _ in range(2 * STREAMS_PER_CHANNEL):
        with pytest.raises(ValueError, match="a/0"):
            pool.for_stream("a", fails)
        with pytest.raises(ValueError, match="a/0"):
            pool.for_call("a", fails)
    assert pool.for_stream("a", Call).channel == "a/0"


def test_all_channels_are_handed_over_at_the_end(pool: ChannelPool[str], made: list[str]) -> None:
    for _ in range(STREAMS_PER_CHANNEL + 1):
        pool.for_stream("a", Call)
    pool.for_call("b", Call)
    assert pool.drain() == made == ["a/0", "a/1", "b/2"]
    assert pool.drain() == []
