"""A call for many topics: what it answers where some were there before, and where the store fails in the middle."""

import asyncio
import json
from collections.abc import Sequence
from random import Random
from typing import Any, cast

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.controller.new_topics import TOPICS_A_TURN
from data_plane.metadata.port import Change, Compare, OutcomeUnknown, StoreUnavailable, TxnResult
from data_plane.node.control.admin_calls import AdminCalls
from data_plane.node.ports import Caller, CallFailed
from penstock.contract.errors import ErrorCode
from penstock.contract.limits import TOPICS_PER_CALL_MAX
from penstock.contract.topic_settings import TopicSettings
from tests.unit.controller.setup import Store
from tests.unit.node.storage import CONFIG

pytestmark = pytest.mark.pure  # one object stands in for the store and for the view of it


class Meta:
    """The store and the view of one broker. `failures` are raised by the next transactions, before or after them."""

    def __init__(self) -> None:
        self.kept = Store()
        self.image = self.kept.image
        self.failures: list[Exception | None] = []
        self.transactions = 0

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, StoreUnavailable):
            raise failure
        self.transactions += 1
        applied = self.kept.txn(compares, changes)
        if failure is not None:
            raise failure
        return TxnResult(applied, self.kept.revision)

    async def range(self, prefix: str) -> Any:
        return TxnResult(True, self.kept.revision)

    async def reached(self, revision: int, timeout_ms: int) -> bool:
        return self.image.revision >= revision


def wanted(number: int, *, name: str = "", generation: int = 2, **settings: Any) -> pb.CreateTopicRequest:
    return pb.CreateTopicRequest(
        tenant="acme",
        name=name or f"topic-{number}",
        topic_id=number.to_bytes(16, "big"),
        settings_json=json.dumps(TopicSettings(**settings).to_dict()),
        assignments=[pb.Assignment(brokers=[1, 2, 3])],
        generation=generation,
    )


def create(meta: Meta, *topics: pb.CreateTopicRequest) -> pb.CreateTopicsResponse:
    calls = AdminCalls(CONFIG, cast(Any, meta), cast(Any, meta), cast(Any, Random(1)))
    caller = cast(Caller, None)

    async def both() -> bytes:
        await calls.put_tenant(caller, pb.PutTenantRequest(tenant="acme").SerializeToString())
        return await calls.create_topics(caller, pb.CreateTopicsRequest(topics=topics).SerializeToString())

    return pb.CreateTopicsResponse.FromString(asyncio.run(both()))


def test_a_topic_that_is_there_in_a_later_generation_is_said_to_be_outdated() -> None:
    meta = Meta()
    assert not create(meta, wanted(1, generation=3)).outcome.error
    answer = create(meta, wanted(1), wanted(2), wanted(3, name="topic-2"), wanted(4))
    assert [one.outcome.ignored for one in answer.topics] == [True, False, False, False]
    assert [one.outcome.error for one in answer.topics] == [0, 0, ErrorCode.ALREADY_EXISTS, 0]
    assert [one.topic_id[-1] for one in answer.topics] == [1, 2, 3, 4]


def test_a_call_takes_as_many_topics_as_the_limit_says_and_of_one_more_it_makes_none() -> None:
    meta = Meta()
    many = [wanted(1)] * TOPICS_PER_CALL_MAX
    assert not create(meta, *many).outcome.error
    meta = Meta()
    with pytest.raises(CallFailed, match=f"topics: {TOPICS_PER_CALL_MAX + 1} in one call") as refused:
        create(meta, *many, wanted(1))
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert not meta.image.topics


def test_a_transaction_that_may_be_applied_makes_no_topic_twice_and_refuses_none() -> None:
    meta = Meta()
    meta.failures = [None, OutcomeUnknown("lost"), OutcomeUnknown("lost")]
    many = [wanted(number) for number in range(1, 2 * TOPICS_A_TURN)]
    answer = create(meta, *many)
    assert not answer.outcome.error
    assert [one.outcome.error for one in answer.topics] == [0] * len(many)
    assert len(meta.image.topics) == len(many)


def test_a_store_that_fails_in_the_middle_leaves_the_whole_call_to_be_repeated() -> None:
    meta = Meta()
    meta.failures = [None, None, *[StoreUnavailable("away")] * 1_000]
    many = [wanted(number) for number in range(1, 2 * TOPICS_A_TURN)]
    answer = create(meta, *many)
    assert answer.outcome.error == ErrorCode.BROKER_UNAVAILABLE
    assert list(answer.topics) == [], "nothing is said of those that were made"
    assert 0 < len(meta.image.topics) < len(many)
    meta.failures.clear()
    again = create(meta, *many)
    assert not again.outcome.error and len(meta.image.topics) == len(many)
    assert [(one.outcome.error, one.outcome.ignored) for one in again.topics] == [(0, False)] * len(many)
