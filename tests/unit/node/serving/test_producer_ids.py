"""Producer ids and epochs as a broker gives them: never one twice, also when the epochs of an id are used up (RL67)."""

import asyncio
import random
from typing import Any

import pytest

from data_plane.node.ports import Caller
from data_plane.node.serving.client_calls import ClientCalls
from data_plane.testkit.store import SimulatedStore
from penstock.contract.v1 import log_pb2 as pb
from tests.unit.node.storage import CONFIG

CALLER = Caller(peer="c", authorization="", cluster_secret="", internal=False)
LAST_EPOCH = 2**15 - 1


class Anybody:
    """Lets everybody in, as one tenant."""

    tenant = "t"

    def admit(self, caller: Caller) -> "Anybody":
        return self


async def given(calls: ClientCalls, producer_id: int, epoch: int) -> tuple[int, int]:
    """(id, epoch) that a producer of this id and epoch gets."""
    request = pb.InitProducerRequest(producer_id=producer_id, producer_epoch=epoch)
    answer = pb.InitProducerResponse.FromString(
        await calls.init_producer(CALLER, request.SerializeToString())
    )
    return answer.producer_id, answer.producer_epoch


@pytest.mark.pure
def test_a_producer_goes_on_in_the_next_epoch_and_a_used_up_id_is_replaced() -> None:
    async def scenario() -> None:
        nobody: Any = None
        anybody: Any = Anybody()
        store = SimulatedStore(random.Random(1)).client("b1")
        calls = ClientCalls(
            CONFIG, nobody, anybody, store, lambda where: None, lambda tenant, code: None, anybody, nobody
        )
        first, epoch = await given(calls, -1, -1)
        assert epoch == 0
        assert await given(calls, first, 4) == (first, 5)
        assert await given(calls, first, LAST_EPOCH - 1) == (first, LAST_EPOCH)
        other, epoch = await given(calls, first, LAST_EPOCH)
        assert (other != first, epoch) == (True, 0)
        assert (await given(calls, -1, -1))[0] not in (first, other)

    asyncio.run(scenario())
