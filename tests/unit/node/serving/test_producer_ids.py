"""Producer ids and epochs as a broker gives them: never one twice, also when the epochs of an id are used up (RL67)."""

import asyncio
import random
from typing import Any

from data_plane.node.admission.fairness import Fairness
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.serving.client_calls import ClientCalls
from data_plane.node.serving.request_turns import RequestTurns
from data_plane.node.stats import NodeStats
from data_plane.testkit.store import SimulatedStore
from penstock.contract.v1 import log_pb2 as pb
from tests.unit.authz.setup import ACME
from tests.unit.node.admission.test_fairness import Hands, no_quotas
from tests.unit.node.admission.test_gate import gate, of
from tests.unit.node.serving.delays import Delays
from tests.unit.node.storage import CONFIG

LAST_EPOCH = 2**15 - 1


async def given(calls: ClientCalls, producer_id: int, epoch: int) -> tuple[int, int]:
    """(id, epoch) that a producer of this id and epoch gets."""
    request = pb.InitProducerRequest(producer_id=producer_id, producer_epoch=epoch)
    answer = pb.InitProducerResponse.FromString(
        await calls.init_producer(of(ACME), request.SerializeToString())
    )
    return answer.producer_id, answer.producer_epoch


def test_a_producer_goes_on_in_the_next_epoch_and_a_used_up_id_is_replaced() -> None:
    async def scenario() -> None:
        nobody: Any = None
        door, _ = gate()
        store = SimulatedStore(random.Random(1)).client("b1")
        calls = ClientCalls(
            CONFIG,
            MetadataView(store, CONFIG.timings),
            door,
            store,
            lambda where: None,
            lambda tenant, code: None,
            Fairness(Hands(), NodeStats(), no_quotas),
            requests=RequestTurns(
                lambda limit: None, lambda tenant, key_id, name: None, Hands(), NodeStats(), Delays()
            ),
            begin_turn=nobody,
        )
        first, epoch = await given(calls, -1, -1)
        assert epoch == 0
        assert await given(calls, first, 4) == (first, 5)
        assert await given(calls, first, LAST_EPOCH - 1) == (first, LAST_EPOCH)
        other, epoch = await given(calls, first, LAST_EPOCH)
        assert (other != first, epoch) == (True, 0)
        assert (await given(calls, -1, -1))[0] not in (first, other)

    asyncio.run(scenario())
