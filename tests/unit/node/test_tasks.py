"""Several coroutines as one: our own fault is never hidden behind a lost connection (RL140)."""

import asyncio

import pytest

from data_plane.node.ports import ConnectionLost
from data_plane.node.tasks import together


async def _fails(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


def test_an_unexpected_error_is_told_before_an_expected_one() -> None:
    for parts in ((ConnectionLost("gone"), KeyError("ours")), (KeyError("ours"), ConnectionLost("gone"))):
        with pytest.raises((KeyError, ConnectionLost)) as raised:
            asyncio.run(together(*(_fails(part) for part in parts)))
        assert isinstance(raised.value, KeyError), "what is our own fault ends the process"


def test_an_expected_error_is_raised_as_itself() -> None:
    with pytest.raises(ConnectionLost, match="gone"):
        asyncio.run(together(_fails(ConnectionLost("gone")), asyncio.sleep(60)))
