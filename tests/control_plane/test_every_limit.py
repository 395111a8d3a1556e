"""A walk over every limit of docs/reference/limits.md: what each one does, a way or a test that reaches it, and an
answer that names the limit, its scope, what is used and what clears it. A limit without a row here fails.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from control_plane.access import list_actions
from control_plane.api import metrics
from control_plane.audit.actor import Actor, ActorKind
from control_plane.rest.tenant_rates import tenant_rates
from control_plane.topics import actions as topics
from data_plane.controller import tenants as controller
from data_plane.groups import bounds
from data_plane.groups.group import Draft, Group
from data_plane.groups.records import Member
from data_plane.log.producers import Producers
from data_plane.metadata import model
from data_plane.metadata.group_seats import GroupSeatsRecord
from data_plane.metadata.image import ClusterImage
from data_plane.node.frame_heads import require_few, require_read
from data_plane.node.ports import CallFailed
from data_plane.node.serving.consume_stream import ConsumeStream
from penstock.contract import limits
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.frames import FrameError, check_few
from penstock.contract.ids import TenantId
from penstock.contract.topic_settings import UNLIMITED, TopicSettings
from penstock.rules import access_document
from penstock.rules.access import AccessList, Acl
from penstock.rules.names import check_display_name, check_printable_name, check_topic_name, is_domain_name
from penstock.rules.principal_limits import PrincipalLimits
from quotas import actions
from tenants import actions as tenant_actions
from tenants.models import Person, Tenant
from tenants.organisations import actions as organisations
from tenants.organisations import tenant_actions as tenant_moves
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, House, call, make_house, make_organisation

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/limits.md"
_CLEARS = re.compile(r"; |[Cc]lears ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """`reach` is refused with `code`; the answer has each text of `says`. One of what is *used* also says what clears
    it; one of a *value* clears with another value, and says which are allowed.
    """

    code: ErrorCode
    reach: Callable[[House], object]
    says: tuple[str, ...]
    of_use: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ByTest:
    """What happens (`outcome`), shown by a test where more than a call is needed to reach it."""

    outcome: str
    test: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """Not above it, but where nothing is set: the setting of a topic that has it."""

    setting: str


Row = Reached | ByTest | Default


def value(reach: Callable[[], object], *says: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> Reached:
    return Reached(code=code, reach=lambda _: reach(), says=says)


def used(reach: Callable[[], object], *says: str) -> Reached:
    return Reached(code=ErrorCode.LIMIT_EXCEEDED, reach=lambda _: reach(), says=says, of_use=True)


def of_tenant(
    reach: Callable[[House], object], *says: str, code: ErrorCode = ErrorCode.LIMIT_EXCEEDED
) -> Reached:
    return Reached(code=code, reach=reach, says=says, of_use=True)


def setting(**named: Any) -> Reached:
    ((name, number),) = named.items()
    return value(lambda: TopicSettings(**named), f"{name}: {number} is not within", " to ")


# -- ways to reach them -----------------------------------------------------------------------------------

PARTITIONS = limits.PARTITIONS_PER_TOPIC_MAX
_ENTRY = Acl(effect="allow", principal="person:1", operations=("describe",), resource="topic", name="a")


def _draft(members: int, topics_each: int = 1) -> Draft:
    draft = Draft(Group("tn_a", "readers"))
    names = tuple(f"t{number}" for number in range(topics_each))
    for number in range(members):
        draft.put(
            Member(
                member_id=f"m{number}", instance_id="", client_id="", client_host="", topics=names,
                session_timeout_ms=1_000, rebalance_timeout_ms=1_000,
            )
        )  # fmt: skip
    return draft


def _list(**parts: Any) -> AccessList:
    return AccessList(**parts)


def _ranges(count: int) -> tuple[str, ...]:
    return ("10.0.0.0/8",) * count


def _entries_of(ranges: int) -> tuple[Acl, ...]:
    return (replace(_ENTRY, addresses=_ranges(10)),) * (ranges // 10) + (
        replace(_ENTRY, addresses=_ranges(1)),
    )


def _long_list() -> str:
    acls = tuple(
        replace(_ENTRY, name=f"{number:04d}" + "n" * 200, addresses=_ranges(16)[:2])
        for number in range(1_000)
    )
    members = tuple(
        (f"group:{n}", tuple(f"service_account:{m:0250d}" for m in range(20))) for n in range(100)
    )
    return access_document.access_list_json(_list(acls=acls, members=members))


def _producers() -> None:
    table = Producers(table_max=1)
    table.apply(1, 0, 0, 1, 0, 1_000)
    batch = SimpleNamespace(producer_id=2, producer_epoch=0, base_sequence=0, offset_span=1, is_control=False)
    table._check_unknown(cast(Any, batch), 1_000, lambda: "orders-0")


def _opened_partitions() -> None:
    stream = SimpleNamespace(_opened=range(limits.PARTITIONS_PER_STREAM_MAX), _close=lambda handle: None)
    ConsumeStream._open(cast(Any, stream), cast(Any, SimpleNamespace(handle=1)), "")


def _key_of(scopes: int, name: str = "k") -> None:
    bindings = [model.Binding(topic_prefix="a")] * scopes
    image = ClusterImage()
    image.tenants[TenantId("t")] = model.TenantRecord(tenant=TenantId("t"))
    controller.put_key(
        image, None, key_id="k" * 12, tenant=TenantId("t"), name=name, pepper_version=1,
        secret_hmac="0" * 64, scram={}, bindings=bindings,
    )  # fmt: skip


def _rate() -> None:
    quotas = model.TenantQuotas(produce_bytes_per_s=limits.PRODUCE_BYTES_PER_S_MAX + 1)
    controller.put_tenant(ClusterImage(), "t", quotas=quotas)


def _consume_rate() -> None:
    quotas = model.TenantQuotas(consume_bytes_per_s=limits.CONSUME_BYTES_PER_S_MAX + 1)
    controller.put_tenant(ClusterImage(), "t", quotas=quotas)


def _quota(**quotas: int) -> None:
    controller.put_tenant(ClusterImage(), "t", quotas=model.TenantQuotas(**quotas))


def _principal_limits() -> None:
    principals = {f"service_account:{n}": PrincipalLimits() for n in range(1_002)}
    controller.put_tenant(ClusterImage(), "t", quotas=model.TenantQuotas(), principals=principals)


def _zone() -> None:
    name = "z" * (limits.DOMAIN_NAME_LENGTH_MAX + 1)
    assert not is_domain_name(name)
    check_printable_name("zone", name, limits.DOMAIN_NAME_LENGTH_MAX)


def _create(house: House, name: str = "one", partitions: int = 1, **settings: Any) -> None:
    topics.create_topic(ACTOR, house.tenant, name=name, partitions=partitions, settings=settings)


def _over(house: House, limit: str, most: int, act: Callable[[], object]) -> None:
    """`act` twice under a limit of `most`: the last one is above it."""
    named: dict[str, Any] = {limit: most}
    actions.set_limits(ACTOR, house.tenant, **named)
    for _ in range(most + 1):
        act()


def _topics(house: House) -> None:
    names = iter("abc")
    _over(house, "topics_max", 1, lambda: _create(house, next(names)))


def _keys(house: House) -> None:
    actions.set_limits(ACTOR, house.tenant, keys_max=1)
    owner = house.credentials[Standing.OWNER]
    answer = [call("POST", "/v1/keys", {"name": "k"}, token=owner) for _ in range(2)][-1]
    assert answer.body["limit"] == "keys_max"
    raise CallFailed(ErrorCode[answer.body["code"].upper()], answer.body["detail"])


def _accounts(house: House) -> None:
    names = iter("abc")
    _over(
        house,
        "service_accounts_max",
        1,
        lambda: list_actions.create_account(ACTOR, house.tenant, name=next(names)),
    )


def _bounded_topic(house: House, limit: str, most: int, **settings: Any) -> None:
    named: dict[str, Any] = {limit: most}
    actions.set_limits(ACTOR, house.tenant, **named)
    _create(house, **settings)


def _rest_calls(house: House) -> None:
    actions.set_limits(ACTOR, house.tenant, rest_calls_per_s=1)
    tenant_rates.forget_all()
    for _ in range(100):
        answer = call("GET", "/v1/topics", token=house.credentials[Standing.OWNER])
        if answer.status == 429:
            assert int(answer.headers["Retry-After"]) == 1 and answer.body["limit"] == "rest_calls_per_s"
            raise CallFailed(ErrorCode.THROTTLED, answer.body["detail"])


def _partition_changes(house: House) -> None:
    actions.set_limits(ACTOR, house.tenant, partition_changes_per_hour=1)
    owner = house.credentials[Standing.OWNER]
    answer = [call("POST", "/v1/topics", {"name": name, "partitions": 1}, token=owner) for name in "ab"][-1]
    assert answer.status == 429 and answer.body["limit"] == "partition_changes_per_hour"
    raise CallFailed(ErrorCode[answer.body["code"].upper()], answer.body["detail"])


def _tenants_of_a_person(house: House) -> None:
    person = Person.objects.create(email="many@example.com", tenants_max=0)
    tenant_actions.create_tenant(ACTOR, name="more", owner=person)


def _organisations_of_a_person(house: House) -> None:
    person = Person.objects.create(email="many@example.com")
    actor = Actor(kind=ActorKind.PERSON, id=person.public_id)
    for number in range(limits.ORGANISATIONS_PER_PERSON_MAX + 1):
        organisations.create(actor, person, name=f"o-{number}")


def _tenants_of_an_organisation(house: House) -> None:
    full = make_organisation(house, "full")
    Tenant.objects.bulk_create(
        Tenant(public_id=f"tn_full_{number}", name=f"full-{number}", organisation=full)
        for number in range(limits.TENANTS_PER_ORGANISATION_MAX)
    )
    owner = Person.objects.get(memberships__tenant=house.tenant, memberships__role="owner")
    actor = Actor(kind=ActorKind.PERSON, id=owner.public_id)
    tenant_moves.move_in(actor, full, house.tenant.public_id)


def _page(house: House, path: str, most: int) -> None:
    answer = call("GET", f"{path}?limit={most + 1}", token=house.credentials[Standing.OWNER])
    assert answer.status == 400
    raise CallFailed(ErrorCode.INVALID_REQUEST, answer.body["detail"])


def _seats() -> None:
    GroupSeatsRecord().counted(0, 1, 3).taken(1, 1, 0, 3)


GATE = "tests/unit/node/admission/test_gate.py"
RECORDS = "tests/unit/records"
STREAMS = "tests/simulation/test_client_streams.py"
CALLS = "tests/simulation/test_group_calls.py"

WALK: dict[str, Row] = {
    "TOPIC_NAME_LENGTH_MAX": value(lambda: check_topic_name("t", "a" * 250), "name: ", "1 to 249 of"),
    "PARTITIONS_PER_TOPIC_MAX": value(
        lambda: topics.checked_partitions(PARTITIONS + 1), "partitions: 10001 is not within 1 to 10000"
    ),
    "TOPICS_PER_CALL_MAX": ByTest(
        outcome="INVALID_REQUEST; LIMIT_EXCEEDED for their partitions together",
        test="tests/control_plane/test_many_topics.py::test_a_request_that_is_wrong_as_a_whole_makes_nothing",
    ),
    "REPLICATION_FACTOR_MAX": setting(replication=limits.REPLICATION_FACTOR_MAX + 1),
    "REPLICATION_DEFAULT": Default(setting="replication"),
    "MIN_INSYNC_DEFAULT": Default(setting="min_insync_replicas"),
    "MESSAGE_BYTES_MAX_DEFAULT": Default(setting="max_message_bytes"),
    "MESSAGE_BYTES_MAX_LIMIT": setting(max_message_bytes=limits.MESSAGE_BYTES_MAX_LIMIT + 1),
    "BATCH_BYTES_MAX_DEFAULT": Default(setting="max_batch_bytes"),
    "BATCH_BYTES_MAX_LIMIT": setting(max_batch_bytes=limits.BATCH_BYTES_MAX_LIMIT + 1),
    "BATCH_OVERHEAD_BYTES": value(
        lambda: TopicSettings.chosen({"max_message_bytes": 9_000, "max_batch_bytes": 9_000}, {}),
        "max_batch_bytes: 9000 has no space for a message of 9000", "at least 10024 required",
    ),
    "RECORDS_PER_BATCH_MAX": ByTest(
        outcome="CORRUPT_BATCH",
        test=f"{RECORDS}/test_batch.py::test_the_largest_count_passes_the_header_check_and_one_more_does_not",
    ),
    "RECORDS_AND_HEADERS_PER_BATCH_MAX": ByTest(
        outcome="MALFORMED_BATCH",
        test=f"{RECORDS}/test_record_block.py::test_records_and_headers_of_a_batch_are_bounded_together",
    ),
    "HEADER_NAME_BYTES_PER_BATCH_MAX": ByTest(
        outcome="MALFORMED_BATCH",
        test=f"{RECORDS}/test_record_block.py::test_names_of_a_batchs_headers_are_bounded_over_all_its_records",
    ),
    "DECOMPRESSED_BATCH_BYTES_MAX": ByTest(
        outcome="MALFORMED_BATCH",
        test=f"{RECORDS}/test_malformed.py::test_a_batch_that_inflates_beyond_the_bound_is_malformed",
    ),
    "FRAME_HEAD_BYTES_MAX": ByTest(
        outcome="INVALID_REQUEST, and the stream ends",
        test="tests/integration/bad_input/test_frames.py::test_more_batches_than_a_frame_may_name_end_the_stream_at_once",
    ),
    "FRAME_ENTRIES_MAX": used(
        lambda: check_few(limits.FRAME_ENTRIES_MAX + 1, "topics"),
        "10001 topics in one request, at most 10000 allowed; send several",
    ),
    "CALLS_PER_TENANT_MAX": ByTest(
        outcome="LIMIT_EXCEEDED",
        test=f"{GATE}::test_a_tenant_has_so_many_calls_open_and_no_more_and_others_have_theirs",
    ),
    "CONNECTIONS_PER_TENANT_MAX": ByTest(
        outcome="LIMIT_EXCEEDED", test=f"{GATE}::test_a_tenant_has_calls_on_so_many_connections_and_no_more"
    ),
    "CONNECTIONS_PER_ADDRESS_MAX": ByTest(
        outcome="LIMIT_EXCEEDED",
        test=f"{GATE}::test_an_address_with_too_many_connections_is_refused_before_its_key_is_looked_at",
    ),
    "STREAMS_PER_CONNECTION_MAX": ByTest(
        outcome="waits in the client",
        test="tests/integration/sdk/test_real_brokers.py::"
        "test_one_client_may_have_more_streams_at_a_broker_than_one_connection_takes",
    ),
    "FIRST_REQUEST_MS_MAX": ByTest(
        outcome="INVALID_REQUEST, and the call ends",
        test="tests/unit/broker/test_admission.py::test_a_call_whose_request_does_not_come_ends",
    ),
    "REFUSED_BATCHES_PER_S_MAX": ByTest(
        outcome="slowed down",
        test="tests/unit/throttling/test_refusals.py::"
        "test_some_are_refused_at_once_and_then_one_waits_until_the_count_has_fallen",
    ),
    "UNREAD_ANSWERS_MAX": value(
        lambda: require_read(limits.UNREAD_ANSWERS_MAX + 1),
        "100001 answers of the stream are unread, at most 100000 are kept; read them",
    ),
    "FRAME_BYTES_MAX": ByTest(
        outcome="INVALID_REQUEST, and the stream ends",
        test="tests/unit/broker/test_grpc_listener.py::test_an_oversize_frame_ends_its_stream_and_harms_no_other",
    ),
    "STREAM_CREDIT_BYTES": ByTest(
        outcome="INVALID_REQUEST, and the stream ends",
        test=f"{STREAMS}::test_a_stream_that_overdraws_its_credit_is_ended_and_the_next_one_begins_with_all_of_it",
    ),
    "FETCH_CREDIT_BYTES_MAX": ByTest(
        outcome="waits for credit",
        test=f"{STREAMS}::test_nothing_is_pushed_beyond_the_credit_and_the_rest_comes_when_it_returns",
    ),
    "PARTITIONS_PER_STREAM_MAX": value(
        _opened_partitions, "100000 partitions are open on the stream, at most 100000 allowed; open several"
    ),
    "IN_FLIGHT_BATCHES_PER_PRODUCER": ByTest(
        outcome="older duplicates are OUT_OF_ORDER_SEQUENCE",
        test="tests/unit/log/test_producers.py::test_only_the_last_five_batches_are_remembered",
    ),
    "PRODUCERS_PER_PARTITION_MAX": used(
        _producers, "orders-0: 1 producers wrote within", "at most 1 allowed; use fewer", "Clears when one"
    ),
    "PRODUCER_ID_BLOCK": ByTest(
        outcome="a size, nothing is refused",
        test="tests/unit/controller/test_topics.py::test_blocks_of_producer_ids_never_overlap",
    ),
    "PRODUCER_IDLE_MS_MIN": ByTest(
        outcome="LIMIT_EXCEEDED until then",
        test="tests/unit/log/test_producers.py::"
        "test_a_full_table_forgets_a_producer_that_was_idle_for_the_idle_time",
    ),
    "SEGMENT_BYTES_DEFAULT": Default(setting="segment_bytes"),
    "SEGMENT_BYTES_MIN": setting(segment_bytes=limits.SEGMENT_BYTES_MIN - 1),
    "SEGMENT_BYTES_LIMIT": setting(segment_bytes=limits.SEGMENT_BYTES_LIMIT + 1),
    "INDEX_INTERVAL_BYTES_DEFAULT": Default(setting="index_interval_bytes"),
    "RETENTION_MS_DEFAULT": Default(setting="retention_ms"),
    "RETENTION_MS_MIN": setting(retention_ms=limits.RETENTION_MS_MIN - 1),
    "TIMESTAMP_AHEAD_MS_MAX": ByTest(
        outcome="INVALID_REQUEST for the batch",
        test="tests/integration/bad_input/test_batches.py::test_the_sdk_tells_of_a_timestamp_too_far_ahead",
    ),
    "KEY_NAME_LENGTH_MAX": value(
        lambda: _key_of(0, "n" * 101), "key name of 101 characters, at most 100 allowed"
    ),
    "KEY_BINDINGS_MAX": used(lambda: _key_of(101), "101 bindings of one key, at most 100 allowed; name prefixes"),
    "PRINCIPAL_LIMITS_PER_TENANT_MAX": used(
        _principal_limits, "limits of 1001 service accounts, at most 1000 allowed; set those"
    ),
    "ACLS_PER_TENANT_MAX": used(
        lambda: _list(acls=(_ENTRY,) * 1_001), "1001 entries of an access list, at most 1000 allowed; name"
    ),
    "ACL_ADDRESSES_MAX": used(
        lambda: replace(_ENTRY, addresses=_ranges(17)),
        "addresses: 17 ranges of one entry, at most 16 allowed; name larger",
    ),
    "ACL_ADDRESSES_PER_TENANT_MAX": used(
        lambda: _list(acls=_entries_of(2_000)),
        "2001 ranges of addresses in all entries, at most 2000 allowed; name larger",
    ),
    "PRINCIPAL_GROUPS_PER_TENANT_MAX": used(
        lambda: _list(members=tuple((f"group:{n}", ()) for n in range(101))),
        "101 groups of principals, at most 100 allowed; delete some",
    ),
    "PRINCIPAL_GROUP_MEMBERS_PER_TENANT_MAX": used(
        lambda: _list(members=(("group:a", tuple(f"person:{n}" for n in range(2_001))),)),
        "2001 members of all groups of principals, at most 2000 allowed; take some out",
    ),
    "ACCESS_LIST_BYTES_MAX": used(
        _long_list, "the access list has", f"bytes, at most {limits.ACCESS_LIST_BYTES_MAX} allowed; use fewer"
    ),
    "SERVICE_ACCOUNTS_PER_TENANT_MAX": ByTest(
        outcome="LIMIT_EXCEEDED",
        test="tests/control_plane/test_every_limit.py::test_a_tenant_has_a_thousand_service_accounts_and_no_more",
    ),
    "PRODUCE_BYTES_PER_S_MAX": value(_rate, "produce_bytes_per_s: ", f"above {limits.PRODUCE_BYTES_PER_S_MAX}"),
    "CONSUME_BYTES_PER_S_MAX": value(
        _consume_rate, "consume_bytes_per_s: ", f"above {limits.CONSUME_BYTES_PER_S_MAX}"
    ),
    "REQUESTS_PER_S_MAX": value(
        lambda: _quota(requests_per_s=limits.REQUESTS_PER_S_MAX + 1), "requests_per_s: ", "above 1000000"
    ),
    "CONNECTION_ATTEMPTS_PER_S_MAX": value(
        lambda: _quota(connection_attempts_per_s=limits.CONNECTION_ATTEMPTS_PER_S_MAX + 1),
        "connection_attempts_per_s: ", "above 10000",
    ),
    "RATE_BURST_MS_MAX": value(
        lambda: _quota(rate_burst_ms=limits.RATE_BURST_MS_MAX + 1), "rate_burst_ms: ", "above 60000"
    ),
    "RATE_FLOOR_PERCENT_MAX": value(
        lambda: _quota(rate_floor_percent=limits.RATE_FLOOR_PERCENT_MAX + 1), "rate_floor_percent: ", "above 10"
    ),
    "WEBHOOKS_PER_TENANT_MAX": ByTest(
        outcome="LIMIT_EXCEEDED",
        test="tests/control_plane/webhooks/test_rest.py::test_a_tenant_has_so_many_and_two_of_no_name",
    ),
    "WEBHOOK_URL_LENGTH_MAX": ByTest(
        outcome="INVALID_REQUEST",
        test="tests/control_plane/webhooks/test_rest.py::test_what_cannot_be_is_refused_by_its_field",
    ),
    "WEBHOOK_EVENTS_MAX": ByTest(
        outcome="INVALID_REQUEST",
        test="tests/control_plane/webhooks/test_rest.py::test_what_cannot_be_is_refused_by_its_field",
    ),
    "WEBHOOK_PAYLOAD_BYTES_MAX": ByTest(
        outcome="a part is left out",
        test="tests/control_plane/webhooks/test_delivering.py::test_what_is_too_large_comes_without_its_large_parts",
    ),
    "WEBHOOK_ATTEMPTS_KEPT": ByTest(
        outcome="the oldest are forgotten",
        test="tests/control_plane/webhooks/test_delivering.py::test_the_last_attempts_are_kept",
    ),
    "FAILED_AUTH_PER_MINUTE_MAX": ByTest(
        outcome="THROTTLED",
        test="tests/unit/authz/test_access.py::test_failures_of_one_address_are_limited_whatever_key_they_name",
    ),
    "DOMAIN_NAME_LENGTH_MAX": value(_zone, "zone: ", "1 to 64 printable characters"),
    "GROUP_NAME_LENGTH_MAX": value(
        lambda: check_printable_name("group", "g" * 250, limits.GROUP_NAME_LENGTH_MAX), "group: ", "1 to 249"
    ),
    "GROUP_MEMBERS_MAX": used(
        lambda: bounds.check_one_more_member(_draft(500)),
        "group readers: 500 members, at most 500 allowed; stop some",
    ),
    "GROUP_SUBSCRIPTIONS_MAX": used(
        lambda: bounds.check_subscriptions(_draft(21, 1_000)),
        "group readers: its members subscribe to 21000 topics", "at most 20000 allowed; read with several",
    ),
    "MEMBERS_PER_TENANT_MAX": used(
        lambda: bounds.check_members_of_tenant(_draft(1), 5_000),
        "the tenant's groups have 5000 members here, at most 5000 allowed; stop some",
    ),
    "MEMBER_ID_LENGTH_MAX": value(
        lambda: check_printable_name("member_id", "m" * 101, limits.MEMBER_ID_LENGTH_MAX), "member_id: ", "1 to 100"
    ),
    "GROUPS_PER_TENANT_MAX": used(
        lambda: bounds.check_groups(1_000),
        "groups: the tenant has 1000 at this coordinator, at most 1000 allowed; delete some",
    ),
    "GROUP_TOPICS_MAX": ByTest(
        outcome="LIMIT_EXCEEDED", test=f"{CALLS}::test_too_many_topics_and_too_long_notes_are_refused_with_the_limit"
    ),
    "COMMITTED_BYTES_PER_TENANT_MAX": used(
        lambda: bounds.check_committed("readers", limits.COMMITTED_BYTES_PER_TENANT_MAX, 1),
        "the tenant's groups have committed offsets and notes of 67108864 bytes", "at most 67108864 allowed; delete",
    ),
    "SESSION_TIMEOUT_MS_MIN": ByTest(
        outcome="INVALID_REQUEST", test=f"{CALLS}::test_names_and_times_that_cannot_be_are_refused_and_make_no_group"
    ),
    "SESSION_TIMEOUT_MS_MAX": ByTest(
        outcome="INVALID_REQUEST", test=f"{CALLS}::test_names_and_times_that_cannot_be_are_refused_and_make_no_group"
    ),
    "REBALANCE_TIMEOUT_MS_MAX": ByTest(
        outcome="INVALID_REQUEST", test=f"{CALLS}::test_names_and_times_that_cannot_be_are_refused_and_make_no_group"
    ),
    "COMMIT_METADATA_LENGTH_MAX": ByTest(
        outcome="INVALID_REQUEST for the offset",
        test=f"{CALLS}::test_too_many_topics_and_too_long_notes_are_refused_with_the_limit",
    ),
    "ORGANISATIONS_PER_PERSON_MAX": of_tenant(
        _organisations_of_a_person, "many@example.com owns 10 organisations, at most 10 allowed"
    ),
    "TENANTS_PER_ORGANISATION_MAX": of_tenant(
        _tenants_of_an_organisation, "full owns 1000 tenants, at most 1000 allowed"
    ),
    "DISPLAY_NAME_LENGTH_MAX": value(
        lambda: check_display_name("display_name", "x" * 101, limits.DISPLAY_NAME_LENGTH_MAX),
        "display_name: ",
        "1 to 100 printable characters required",
    ),
    "TENANTS_PER_PERSON_MAX": of_tenant(
        _tenants_of_a_person, "many@example.com owns 0 tenants, and tenants_max is 0; operators can raise it"
    ),
    "PAGE_ITEMS_MAX": Reached(
        code=ErrorCode.INVALID_REQUEST,
        reach=lambda house: _page(house, "/v1/topics", limits.PAGE_ITEMS_MAX),
        says=("limit: '1001' is not within 1 to 1000",),
    ),
    "PAGE_ITEMS_DEFAULT": ByTest(
        outcome="a default",
        test="tests/control_plane/api/test_lists.py::test_a_page_has_so_many_items_where_nothing_is_said",
    ),
    "AUDIT_EXPORT_ENTRIES_MAX": Reached(
        code=ErrorCode.INVALID_REQUEST,
        reach=lambda house: _page(house, "/v1/audit/export", limits.AUDIT_EXPORT_ENTRIES_MAX),
        says=("limit: ", "within 1 to 10000"),
    ),
    "AUDIT_TALLIES_MAX": ByTest(
        outcome="counted together",
        test="tests/control_plane/test_audit_counts.py::"
        "test_a_flood_of_many_actors_makes_a_bounded_number_of_entries",
    ),
    "produce_bytes_per_s": ByTest(
        outcome="THROTTLED",
        test="tests/integration/enforcement/test_produce_rate.py::"
        "test_a_batch_whose_turn_is_too_far_away_is_refused_with_when_to_come_back",
    ),
    "partitions_max": of_tenant(
        lambda house: _over(house, "partitions_max", 1, lambda: _create(house, partitions=2)),
        "partitions_max: one needs 2, 0 of 1 are used by the tenant; delete a topic, or ask for a higher limit",
    ),
    "topics_max": of_tenant(_topics, "topics_max: b needs 1, 1 of 1 are used by the tenant; delete a topic"),
    "retention_ms_max": of_tenant(
        lambda house: _bounded_topic(house, "retention_ms_max", limits.DAY_MS, retention_ms=UNLIMITED),
        "retention_ms_max: retention_ms of one would be no end, at most 86400000 allowed to the tenant; name a",
    ),
    "message_bytes_max": of_tenant(
        lambda house: _bounded_topic(house, "message_bytes_max", 1_000, max_message_bytes=2_000),
        "message_bytes_max: max_message_bytes of one would be 2000, at most 1000 allowed to the tenant; name a",
    ),
    "service_accounts_max": of_tenant(
        _accounts, "service_accounts_max: b needs 1, 1 of 1 are used by the tenant; delete one first"
    ),
    "bin_days": ByTest(
        outcome="nothing is refused",
        test="tests/control_plane/test_recycle_bin.py::test_a_tenants_own_number_of_days_counts_and_none_is_no_bin",
    ),
    "consume_bytes_per_s": ByTest(
        outcome="delayed, and nothing is refused",
        test="tests/integration/enforcement/test_consume_rate.py::"
        "test_the_rate_is_reached_within_two_seconds_and_never_exceeded",
    ),
    "keys_max": of_tenant(_keys, "keys_max: a key needs 1, 1 of 1 are used by the tenant; revoke one"),
    "rest_calls_per_s": of_tenant(
        _rest_calls, "rest_calls_per_s of tenant ", " is 1 a second, and 1 were made; clears in 1 s",
        code=ErrorCode.THROTTLED,
    ),
    "connections_max": ByTest(
        outcome="LIMIT_EXCEEDED",
        test=f"{GATE}::test_a_tenants_own_limit_of_connections_is_the_lower_one_and_is_counted",
    ),
    "requests_per_s": ByTest(
        outcome="delayed, or THROTTLED for a call",
        test="tests/unit/node/serving/test_request_turns.py::"
        "test_a_call_whose_turn_is_too_far_away_is_refused_with_the_limit_its_use_and_when_it_clears",
    ),
    "connection_attempts_per_s": ByTest(
        outcome="THROTTLED",
        test=f"{GATE}::test_connections_that_begin_faster_than_the_tenants_rate_are_refused_before_anything_else"
        "_and_counted",
    ),
    "rate_burst_ms": ByTest(
        outcome="nothing is refused",
        test="tests/simulation/test_shared_requests.py::"
        "test_a_tenant_that_rested_gets_its_burst_once_and_the_rate_over_the_time_after_it",
    ),
    "rate_floor_percent": ByTest(
        outcome="nothing is refused",
        test="tests/simulation/test_shared_requests.py::"
        "test_no_tenant_is_above_the_limit_by_more_than_a_tenth_while_the_coordinator_is_away",
    ),
    "groups_max": used(_seats, "groups_max: the tenant has 3 consumer groups, at most 3 allowed; delete some"),
    "storage_bytes_max": ByTest(
        outcome="THROTTLED until space is free",
        test="tests/simulation/test_storage_limit.py::"
        "test_the_refusal_names_limit_use_and_what_clears_it_and_hits_that_tenant_alone",
    ),
    "partition_changes_per_hour": of_tenant(
        _partition_changes, "partition_changes_per_hour: b needs 1 changes of topics and partitions, 1 of 1 were made",
        "; clears in 3", code=ErrorCode.THROTTLED,
    ),
}  # fmt: skip


def documented() -> list[str]:
    """Names of both tables of the page, in its order."""
    rows = re.findall(r"^\| `(\w+)` \| (?!.* MiB \| \d)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [name for name in rows if name not in ("free", "committed", "dedicated")]


def test_every_limit_of_the_page_has_a_row_and_no_other_has() -> None:
    names = documented()
    assert len(names) > 70 and len(set(names)) == len(names)
    assert sorted(WALK) == sorted(names)


@cache
def _tests_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.django_db
@pytest.mark.parametrize("name", WALK)
def test_a_limit_does_what_its_row_says(name: str) -> None:
    row = WALK[name]
    if isinstance(row, Default):
        assert getattr(TopicSettings(), row.setting) == getattr(limits, name)
        return
    if isinstance(row, ByTest):
        file, _, test = row.test.partition("::")
        assert test in _tests_of(file), f"{name}: {row.test} is gone; name the test that reaches the limit"
        return
    house = make_house("acme")
    with pytest.raises((PenstockError, CallFailed, FrameError)) as refused:
        row.reach(house)
    error = refused.value
    said = str(getattr(error, "message", error))
    # A frame error ends its stream with this code.
    assert getattr(error, "code", ErrorCode.INVALID_REQUEST) == row.code, said
    assert [text for text in row.says if text not in said] == [], said
    if row.of_use:
        assert _CLEARS.search(said), f"what clears it is not named: {said}"
        if isinstance(error, PenstockError):
            assert error.limit == name, "it is counted under the limit's name"


@pytest.mark.django_db
def test_a_tenant_has_a_thousand_service_accounts_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    house = make_house("acme")
    monkeypatch.setattr(limits, "SERVICE_ACCOUNTS_PER_TENANT_MAX", 2)
    for name in "ab":
        list_actions.create_account(ACTOR, house.tenant, name=name)
    with pytest.raises(
        PenstockError, match="has 2 service accounts, at most 2 allowed; delete one"
    ) as refused:
        list_actions.create_account(ACTOR, house.tenant, name="c")
    assert refused.value.limit == "SERVICE_ACCOUNTS_PER_TENANT_MAX"


@pytest.mark.django_db
def test_refusals_by_a_limit_are_counted_by_tenant_and_named_in_the_answer() -> None:
    house = make_house("acme")
    actions.set_limits(ACTOR, house.tenant, partitions_max=1)
    labels = {"tenant": house.tenant.public_id, "limit": "partitions_max"}
    for count in (1, 2):
        body = {"name": "wide", "partitions": 2}
        answer = call("POST", "/v1/topics", body, token=house.credentials[Standing.OWNER])
        assert (answer.status, answer.body["limit"]) == (422, "partitions_max")
        assert metrics.registry.get_sample_value("penstock_http_limit_refusals_total", labels) == count


def test_a_frame_of_too_many_entries_says_the_same_as_a_request() -> None:
    with pytest.raises(FrameError, match="at most 10000 allowed; send several"):
        require_few(limits.FRAME_ENTRIES_MAX + 1, "batches")
