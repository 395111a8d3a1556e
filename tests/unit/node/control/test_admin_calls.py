"""Calls of the control plane, as a broker carries them out: each field arrives, and the store's moods are survived."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

import pytest

from data_plane.broker.clock import SystemRng
from data_plane.contract import admin_pb2 as pb
from data_plane.metadata.features import ACCESS_LISTS, FEATURES_KEY, FeaturesRecord
from data_plane.metadata.model import TenantQuotas, TenantRecord, tenant_key
from data_plane.metadata.port import Change, Compare, OutcomeUnknown, StoreUnavailable, TxnResult
from data_plane.node.control.admin_calls import AdminCalls
from data_plane.node.ports import Caller, CallFailed
from penstock.contract.errors import ErrorCode
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.budgets import Budget
from penstock.rules.principal_limits import PrincipalLimits
from tests.unit.controller.setup import ACME, LOGS, ORDERS, record
from tests.unit.node.control.test_new_topics_of_a_call import Meta, wanted
from tests.unit.node.storage import CONFIG

pytestmark = pytest.mark.pure  # one object stands in for the store and for the view of it

CALLER = cast(Caller, None)
KEY = "a1b2c3d4e5f6"


class Ranged(Meta):
    """Its store also lists what it holds."""

    async def range(self, prefix: str) -> Any:
        items = tuple(item for key, item in sorted(self.kept.items.items()) if key.startswith(prefix))
        return cast(Any, Listing(items, self.kept.revision))


class Listing:
    def __init__(self, items: Sequence[Any], revision: int) -> None:
        self.items = items
        self.revision = revision


class Behind(Ranged):
    """Its first transactions are made against an image that others have changed meanwhile."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        if self.times:
            self.times -= 1
            return TxnResult(False, self.kept.revision)
        return await super().txn(compares, changes)


def calls_of(meta: Meta) -> AdminCalls:
    return AdminCalls(CONFIG, cast(Any, meta), cast(Any, meta), SystemRng())


def asked(meta: Meta, name: str, request: Any, answer: Any = pb.Outcome) -> Any:
    """The answer to one call."""
    return answer.FromString(asyncio.run(getattr(calls_of(meta), name)(CALLER, request.SerializeToString())))


def refusal(outcome: pb.Outcome) -> tuple[int, str]:
    assert outcome.revision == 0
    return outcome.error, outcome.message


def levelled() -> Ranged:
    """A cluster at the newest level, with one tenant."""
    meta = Ranged()
    meta.kept.put(FEATURES_KEY, FeaturesRecord(level=ACCESS_LISTS).encode())
    assert not asked(meta, "put_tenant", pb.PutTenantRequest(tenant=ACME)).error
    return meta


QUOTAS = {name: number for number, name in enumerate(asdict(TenantQuotas()), start=101)} | {
    "rate_floor_percent": 7
}
BUDGET: dict[str, Any] = {
    "budget_id": "b1",
    "name": "prod",
    "period": "month",
    "amount": 1_000,
    "unit": "messages",
    "policy": "slow",
    "slow_bytes_per_s": 500,
    "topic": "orders",
    "principal": "",
    "byte_in": 3,
    "message_in": 4,
    "byte_out": 5,
    "message_out": 6,
    "used_before": 7,
    "first_began_ms": 1_793_491_200_000,
}


def test_every_limit_and_budget_of_a_tenant_arrives() -> None:
    meta = levelled()
    limits = {"produce_bytes_per_s": 1, "consume_bytes_per_s": 2, "requests_per_s": 3}
    request = pb.PutTenantRequest(
        tenant=ACME,
        generation=5,
        quotas=pb.TenantQuotas(**QUOTAS),
        suspended=True,
        principals=[pb.PrincipalLimits(principal="service_account:sa_1", **limits)],
        budgets=[pb.Budget(**BUDGET)],
    )
    assert not asked(meta, "put_tenant", request).error
    tenant = meta.image.tenants[ACME]
    assert tenant.quotas == TenantQuotas(**QUOTAS)
    assert tenant.principals == {"service_account:sa_1": PrincipalLimits(**limits)}
    assert tenant.budgets == (Budget(**BUDGET),)
    assert (tenant.suspended, tenant.generation) == (True, 5)
    older = asked(meta, "put_tenant", pb.PutTenantRequest(tenant=ACME, generation=4))
    assert older.ignored and meta.image.tenants[ACME] == tenant
    assert not asked(meta, "put_tenant", pb.PutTenantRequest(tenant=ACME, generation=6)).error
    assert meta.image.tenants[ACME].quotas == TenantQuotas(), "without quotas there are none"


def test_a_budget_that_cannot_be_is_refused() -> None:
    with pytest.raises(CallFailed, match="budgets: ") as refused:
        asked(
            levelled(),
            "put_tenant",
            pb.PutTenantRequest(tenant=ACME, budgets=[pb.Budget(**BUDGET | {"period": "year"})]),
        )
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def put_key(**fields: Any) -> pb.PutKeyRequest:
    values: dict[str, Any] = {
        "key_id": KEY,
        "tenant": ACME,
        "name": "n",
        "pepper_version": 2,
        "secret_hmac": b"h" * 32,
    }
    return pb.PutKeyRequest(**values | {"scram_json": '{"sha256": {}}', "owner": "person:p1"} | fields)


def test_every_field_of_a_key_arrives_and_it_gets_the_next_number() -> None:
    meta = levelled()
    bindings = [
        pb.Binding(topic_prefix="logs", operations=["describe", "consume"]),
        pb.Binding(topic_prefix="orders", resource="topic", literal=True),
    ]
    request = put_key(expires_at_ms=9_999_999_999_999, generation=3, bindings=bindings)
    answer = asked(meta, "put_key", request, pb.PutKeyResponse)
    assert not answer.outcome.error
    key = meta.image.keys[KEY]
    assert (key.tenant, key.name, key.pepper_version, key.secret_hmac) == (ACME, "n", 2, (b"h" * 32).hex())
    assert (key.scram, key.expires_at_ms, key.generation) == ({"sha256": {}}, 9_999_999_999_999, 3)
    assert (key.owner, key.revoked, key.principal) == ("person:p1", False, answer.principal)
    assert [(b.topic_prefix, b.operations, b.resource, b.literal) for b in key.bindings] == [
        ("logs", ("describe", "consume"), "", False),
        ("orders", (), "topic", True),
    ]
    other = asked(meta, "put_key", put_key(key_id=KEY[:-1] + "0"), pb.PutKeyResponse)
    assert other.principal == answer.principal + 1
    assert not asked(meta, "revoke_key", pb.RevokeKeyRequest(key_id=KEY, generation=4)).error
    assert meta.image.keys[KEY].revoked and meta.image.keys[KEY].generation == 4


@pytest.mark.parametrize(("scram", "says"), [("{", "not JSON"), ("[]", "a JSON object is required")])
def test_a_key_whose_verifiers_are_no_object_is_refused_without_a_number(scram: str, says: str) -> None:
    meta = levelled()
    answer = asked(meta, "put_key", put_key(scram_json=scram), pb.PutKeyResponse)
    assert refusal(answer.outcome) == (ErrorCode.INVALID_REQUEST, f"scram_json: {says}")
    assert answer.principal == 0 and not meta.image.keys


def test_a_key_that_could_not_be_written_has_no_number() -> None:
    meta = levelled()
    meta.failures = [StoreUnavailable("away")] * 1_000
    answer = asked(meta, "put_key", put_key(), pb.PutKeyResponse)
    assert refusal(answer.outcome)[0] == ErrorCode.BROKER_UNAVAILABLE
    assert answer.principal == 0


def create(meta: Meta, **fields: Any) -> Any:
    request = wanted(1, name="orders")
    request.topic_id = ORDERS
    for name, value in fields.items():
        setattr(request, name, value)
    return asked(meta, "create_topic", request, pb.CreateTopicResponse)


def test_a_topic_is_made_grown_binned_restored_and_deleted() -> None:
    meta = levelled()
    answer = create(meta)
    assert answer.topic_id == ORDERS and not answer.outcome.error
    topic = meta.image.topics[ORDERS]
    assert (topic.tenant, topic.name, topic.partitions, topic.generation) == (ACME, "orders", 1, 2)
    settings = TopicSettings(retention_ms=5_000_000)
    grow = pb.UpdateTopicRequest(
        topic_id=ORDERS, tenant=ACME, generation=3, added=[pb.Assignment(brokers=[3, 1, 2])],
        settings_json=wanted(1, retention_ms=5_000_000).settings_json,
    )  # fmt: skip
    assert not asked(meta, "update_topic", grow).error
    topic = meta.image.topics[ORDERS]
    assert (topic.partitions, topic.settings, topic.generation) == (2, settings, 3)
    assert [record.replicas for record in meta.image.partitions_of(ORDERS)] == [(1, 2, 3), (3, 1, 2)]
    assert not asked(meta, "update_topic", grow).error
    assert meta.image.topics[ORDERS].partitions == 2, "the same generation is the same wish"
    for call, request, binned, name in (
        ("bin_topic", pb.BinTopicRequest(topic_id=ORDERS, tenant=ACME, generation=4), True, "orders"),
        (
            "restore_topic",
            pb.RestoreTopicRequest(topic_id=ORDERS, tenant=ACME, name="again", generation=5),
            False,
            "again",
        ),
    ):
        assert not asked(meta, call, request).error
        topic = meta.image.topics[ORDERS]
        assert (topic.binned, topic.name) == (binned, name)
    gone = pb.DeleteTopicRequest(topic_id=ORDERS, tenant=ACME, name="again", generation=6)
    assert not asked(meta, "delete_topic", gone).error
    assert ORDERS not in meta.image.topics


def test_a_topic_without_an_id_gets_one_and_settings_that_are_none_are_refused() -> None:
    meta = levelled()
    answer = create(meta, topic_id=b"")
    assert len(answer.topic_id) == 16 and list(meta.image.topics) == [answer.topic_id]
    for text, says in (("{", "not JSON"), ("7", "a JSON object is required")):
        outcome = create(meta, name="other", topic_id=b"", settings_json=text).outcome
        assert refusal(outcome) == (ErrorCode.INVALID_REQUEST, f"settings_json: {says}")


def test_an_access_list_arrives_or_is_refused() -> None:
    meta = levelled()
    bad = asked(meta, "put_access_list", pb.PutAccessListRequest(tenant=ACME, rules_json="{", generation=2))
    assert bad.error == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("failures", [1, 3])
def test_a_store_that_is_away_for_a_moment_is_asked_again(failures: int) -> None:
    meta = levelled()
    meta.failures = [StoreUnavailable("away")] * failures
    assert not create(meta).outcome.error


def test_a_store_that_stays_away_refuses_and_nothing_is_changed() -> None:
    meta = levelled()
    meta.failures = [StoreUnavailable("away")] * 1_000
    outcome = asked(meta, "put_tenant", pb.PutTenantRequest(tenant="globex"))
    assert refusal(outcome) == (ErrorCode.BROKER_UNAVAILABLE, "the metadata store does not answer")
    assert "globex" not in meta.image.tenants


class Mute(Ranged):
    """It never says what became of a change, and carries none out."""

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        raise OutcomeUnknown("lost")


def test_a_change_of_which_nothing_is_known_may_or_may_not_have_been_applied() -> None:
    outcome = asked(Mute(), "put_tenant", pb.PutTenantRequest(tenant="globex"))
    assert refusal(outcome) == (ErrorCode.OUTCOME_UNKNOWN, "the change may or may not have been applied")


class Overtaken(Ranged):
    """It says nothing of the first change, and another topic has the name by then."""

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        if self.image.topics:
            return await super().txn(compares, changes)
        self.kept.topic(record(), topic_id=LOGS, name="orders")
        raise OutcomeUnknown("lost")


def test_a_refusal_after_an_unknown_outcome_says_no_more_than_that_it_is_unknown() -> None:
    meta = Overtaken()
    meta.kept.put(tenant_key(ACME), TenantRecord(tenant=ACME).encode())
    assert refusal(create(meta).outcome)[0] == ErrorCode.OUTCOME_UNKNOWN
    assert refusal(create(meta).outcome)[0] == ErrorCode.ALREADY_EXISTS, "nothing is open of this call"


def test_a_change_that_was_applied_though_no_answer_came_is_no_conflict_with_itself() -> None:
    meta = levelled()
    meta.failures = [OutcomeUnknown("lost")]
    assert not create(meta).outcome.error
    meta.failures = [OutcomeUnknown("lost")]
    grow = pb.UpdateTopicRequest(topic_id=ORDERS, tenant=ACME, added=[pb.Assignment(brokers=[3, 1, 2])])
    grow.settings_json = wanted(1).settings_json
    assert not asked(meta, "update_topic", grow).error
    assert meta.image.topics[ORDERS].partitions == 2, "grown once"


@pytest.mark.parametrize(("times", "error"), [(19, 0), (20, ErrorCode.BROKER_UNAVAILABLE)])
def test_an_image_that_is_behind_is_decided_from_again_and_not_without_end(times: int, error: int) -> None:
    meta = Behind(times)
    assert asked(meta, "put_tenant", pb.PutTenantRequest(tenant=ACME)).error == error


def test_an_outcome_names_the_other_brokers_that_are_active() -> None:
    meta = levelled()
    meta.kept.broker(3, draining=True)
    meta.kept.broker(5)
    outcome = asked(meta, "put_tenant", pb.PutTenantRequest(tenant=ACME))
    assert CONFIG.broker_id == 1
    assert list(outcome.other_brokers) == ["h2:2"]


def test_a_topic_is_described_by_its_id_or_name() -> None:
    meta = levelled()
    create(meta)
    for request in (
        pb.DescribeTopicRequest(topic_id=ORDERS),
        pb.DescribeTopicRequest(tenant=ACME, name="orders"),
    ):
        answer = asked(meta, "describe_topic", request, pb.DescribeTopicResponse)
        assert answer.outcome.revision == meta.image.revision
        assert (answer.topic.topic_id, answer.topic.name) == (ORDERS, "orders")
        assert (answer.topic.copies_in_one_zone, answer.topic.copies_on_one_host) == (1, 1)
    for request, what in (
        (pb.DescribeTopicRequest(topic_id=b"x" * 16), (b"x" * 16).hex()),
        (pb.DescribeTopicRequest(tenant=ACME, name="other"), f"{ACME}/other"),
    ):
        answer = asked(meta, "describe_topic", request, pb.DescribeTopicResponse)
        assert refusal(answer.outcome) == (ErrorCode.NOT_FOUND, f"topic {what} does not exist")


def test_a_cluster_is_described_with_the_state_of_each_broker() -> None:
    meta = levelled()
    create(meta)
    meta.kept.broker(2, draining=True)
    meta.kept.broker(7)
    answer = asked(meta, "describe_cluster", pb.DescribeClusterRequest(), pb.DescribeClusterResponse)
    assert (answer.revision, answer.feature_level) == (meta.image.revision, ACCESS_LISTS)
    assert [level.level for level in answer.levels] == [1, 2]
    assert [(broker.id, broker.state) for broker in answer.brokers] == [
        (1, "active"), (2, "draining"), (3, "active"), (7, "fenced"),
    ]  # fmt: skip
    first = answer.brokers[0]
    assert (first.client_address, first.internal_address, first.zone, first.host) == (
        "h1:1",
        "h1:2",
        "z1",
        "h1",
    )
    assert (first.leaders, first.replicas, first.cordoned) == (1, 1, False)
    assert (first.version, first.level_min, first.level_max) == ("", 0, 0)
    behind = pb.DescribeClusterRequest(min_revision=meta.image.revision + 1)
    with pytest.raises(CallFailed, match="was asked for") as refused:
        asked(meta, "describe_cluster", behind, pb.DescribeClusterResponse)
    assert refused.value.code == ErrorCode.BROKER_UNAVAILABLE
