"""Conversations of both clients with brokers that throttle: the caller hears that, whatever came last."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.asyncio import client as of_asyncio
from penstock.blocking import client as of_blocking
from penstock.client.conversations import Conversation
from penstock.contract.errors import BrokerUnavailable, Forbidden, PenstockError, Throttled


def repeats(outcomes: list[PenstockError]) -> Conversation[str]:
    """Asks until it is answered; what is final ends it, and so does no answer to a search."""
    while True:
        error = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        if isinstance(error, (BrokerUnavailable, Forbidden)):
            raise error
        yield error


async def in_asyncio(conversation: Conversation[str], timeout: float) -> str:
    client = of_asyncio.Client.__new__(of_asyncio.Client)
    runtime = SimpleNamespace(check=lambda: None, start=lambda: None, now_ms=lambda: time.monotonic() * 1000)
    cast(Any, client)._runtime = runtime
    return await client._converse(conversation, timeout)


def blocking(conversation: Conversation[str], timeout: float) -> str:
    client = of_blocking.Client.__new__(of_blocking.Client)
    cast(Any, client)._runtime = SimpleNamespace(enter=lambda: None)
    return client._converse(conversation, timeout)


@pytest.mark.parametrize("is_blocking", [False, True])
@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([Throttled("used all")], Throttled),
        ([Throttled("used all"), BrokerUnavailable("no coordinator was found in time")], Throttled),
        ([BrokerUnavailable("no coordinator was found in time")], BrokerUnavailable),
        ([Throttled("used all"), Forbidden("never")], Forbidden),
    ],
)
def test_a_conversation_with_a_broker_that_throttles_ends_with_that(
    is_blocking: bool, outcomes: list[PenstockError], expected: type[PenstockError]
) -> None:
    conversation = repeats(list(outcomes))
    with pytest.raises(PenstockError) as raised:
        if is_blocking:
            blocking(conversation, 0.15)
        else:
            asyncio.run(in_asyncio(conversation, 0.15))
    assert type(raised.value) is expected
    assert raised.value.__cause__ is not raised.value
