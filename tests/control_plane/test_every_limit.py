"""A walk over every limit of docs/reference/limits.md: what each one does, a way or a test that reaches it, and an
answer that names the limit, its scope, what is used and what clears it. A limit without a row here fails.
"""

import ast
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from control_plane.access import list_actions
from control_plane.api import metrics
from control_plane.topics import actions as topics
from data_plane.groups import bounds
from data_plane.node.frame_heads import require_few, require_read
from data_plane.node.ports import CallFailed
from penstock.contract import limits
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.frames import FrameError, check_few
from penstock.contract.topic_settings import UNLIMITED, TopicSettings
from penstock.rules.names import check_display_name, check_printable_name, check_topic_name
from quotas import actions
from tenants.roles import Standing
from tests.control_plane.ways_to_limits import (
    ENTRY,
    PARTITIONS,
    ByTest,
    Default,
    Reached,
    Row,
    of_tenant,
    reach_accounts,
    reach_bounded_topic,
    reach_budgets,
    reach_consume_rate,
    reach_create,
    reach_draft,
    reach_entries_of,
    reach_key_of,
    reach_keys,
    reach_list,
    reach_long_list,
    reach_opened_partitions,
    reach_organisations_of_a_person,
    reach_over,
    reach_page,
    reach_partition_changes,
    reach_principal_limits,
    reach_processor_time,
    reach_producers,
    reach_quota,
    reach_ranges,
    reach_rate,
    reach_rest_calls,
    reach_seats,
    reach_tenants_of_a_person,
    reach_tenants_of_an_organisation,
    reach_topics,
    reach_zone,
    setting,
    used,
    value,
)
from tests.control_plane.world import ACTOR, call, make_house

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/limits.md"
_CLEARS = re.compile(r"; |[Cc]lears ")


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
    "CALL_WAIT_MS_MAX": ByTest(
        outcome="THROTTLED",
        test="tests/unit/node/serving/test_call_waits.py::"
        "test_what_a_call_waits_for_requests_is_taken_from_what_it_waits_for_the_processor",
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
        reach_opened_partitions, "100000 partitions are open on the stream, at most 100000 allowed; open several"
    ),
    "IN_FLIGHT_BATCHES_PER_PRODUCER": ByTest(
        outcome="older duplicates are OUT_OF_ORDER_SEQUENCE",
        test="tests/unit/log/test_producers.py::test_only_the_last_five_batches_are_remembered",
    ),
    "PRODUCERS_PER_PARTITION_MAX": used(
        reach_producers, "orders-0: 1 producers wrote within", "at most 1 allowed; use fewer", "Clears when one"
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
        lambda: reach_key_of(0, "n" * 101), "key name of 101 characters, at most 100 allowed"
    ),
    "KEY_BINDINGS_MAX": used(lambda: reach_key_of(101), "101 bindings of one key, at most 100 allowed; name prefixes"),
    "PRINCIPAL_LIMITS_PER_TENANT_MAX": used(
        reach_principal_limits, "limits of 1001 service accounts, at most 1000 allowed; set those"
    ),
    "BUDGETS_PER_TENANT_MAX": used(reach_budgets, "11 budgets of the tenant, at most 10 allowed; remove some"),
    "ACLS_PER_TENANT_MAX": used(
        lambda: reach_list(acls=(ENTRY,) * 1_001), "1001 entries of an access list, at most 1000 allowed; name"
    ),
    "ACL_ADDRESSES_MAX": used(
        lambda: replace(ENTRY, addresses=reach_ranges(17)),
        "addresses: 17 ranges of one entry, at most 16 allowed; name larger",
    ),
    "ACL_ADDRESSES_PER_TENANT_MAX": used(
        lambda: reach_list(acls=reach_entries_of(2_000)),
        "2001 ranges of addresses in all entries, at most 2000 allowed; name larger",
    ),
    "PRINCIPAL_GROUPS_PER_TENANT_MAX": used(
        lambda: reach_list(members=tuple((f"group:{n}", ()) for n in range(101))),
        "101 groups of principals, at most 100 allowed; delete some",
    ),
    "PRINCIPAL_GROUP_MEMBERS_PER_TENANT_MAX": used(
        lambda: reach_list(members=(("group:a", tuple(f"person:{n}" for n in range(2_001))),)),
        "2001 members of all groups of principals, at most 2000 allowed; take some out",
    ),
    "ACCESS_LIST_BYTES_MAX": used(
        reach_long_list, "the access list has", f"bytes, at most {limits.ACCESS_LIST_BYTES_MAX} allowed; use fewer"
    ),
    "SERVICE_ACCOUNTS_PER_TENANT_MAX": ByTest(
        outcome="LIMIT_EXCEEDED",
        test="tests/control_plane/test_every_limit.py::test_a_tenant_has_a_thousand_service_accounts_and_no_more",
    ),
    "PRODUCE_BYTES_PER_S_MAX": value(reach_rate, "produce_bytes_per_s: ", f"above {limits.PRODUCE_BYTES_PER_S_MAX}"),
    "CONSUME_BYTES_PER_S_MAX": value(
        reach_consume_rate, "consume_bytes_per_s: ", f"above {limits.CONSUME_BYTES_PER_S_MAX}"
    ),
    "REQUESTS_PER_S_MAX": value(
        lambda: reach_quota(requests_per_s=limits.REQUESTS_PER_S_MAX + 1), "requests_per_s: ", "above 1000000"
    ),
    "CONNECTION_ATTEMPTS_PER_S_MAX": value(
        lambda: reach_quota(connection_attempts_per_s=limits.CONNECTION_ATTEMPTS_PER_S_MAX + 1),
        "connection_attempts_per_s: ", "above 10000",
    ),
    "BROKER_PROCESSOR_MS_PER_S_MAX": value(
        lambda: reach_quota(broker_processor_ms_per_s=limits.BROKER_PROCESSOR_MS_PER_S_MAX + 1),
        "broker_processor_ms_per_s: ", "above 10000",
    ),
    "RATE_BURST_MS_MAX": value(
        lambda: reach_quota(rate_burst_ms=limits.RATE_BURST_MS_MAX + 1), "rate_burst_ms: ", "above 60000"
    ),
    "RATE_FLOOR_PERCENT_MAX": value(
        lambda: reach_quota(rate_floor_percent=limits.RATE_FLOOR_PERCENT_MAX + 1), "rate_floor_percent: ", "above 10"
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
    "DOMAIN_NAME_LENGTH_MAX": value(reach_zone, "zone: ", "1 to 64 printable characters"),
    "GROUP_NAME_LENGTH_MAX": value(
        lambda: check_printable_name("group", "g" * 250, limits.GROUP_NAME_LENGTH_MAX), "group: ", "1 to 249"
    ),
    "GROUP_MEMBERS_MAX": used(
        lambda: bounds.check_one_more_member(reach_draft(500)),
        "group readers: 500 members, at most 500 allowed; stop some",
    ),
    "GROUP_SUBSCRIPTIONS_MAX": used(
        lambda: bounds.check_subscriptions(reach_draft(21, 1_000)),
        "group readers: its members subscribe to 21000 topics", "at most 20000 allowed; read with several",
    ),
    "MEMBERS_PER_TENANT_MAX": used(
        lambda: bounds.check_members_of_tenant(reach_draft(1), 5_000),
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
        reach_organisations_of_a_person, "many@example.com owns 10 organisations, at most 10 allowed"
    ),
    "TENANTS_PER_ORGANISATION_MAX": of_tenant(
        reach_tenants_of_an_organisation, "full owns 1000 tenants, at most 1000 allowed"
    ),
    "DISPLAY_NAME_LENGTH_MAX": value(
        lambda: check_display_name("display_name", "x" * 101, limits.DISPLAY_NAME_LENGTH_MAX),
        "display_name: ",
        "1 to 100 printable characters required",
    ),
    "TENANTS_PER_PERSON_MAX": of_tenant(
        reach_tenants_of_a_person, "many@example.com owns 0 tenants, and tenants_max is 0; operators can raise it"
    ),
    "PAGE_ITEMS_MAX": Reached(
        code=ErrorCode.INVALID_REQUEST,
        reach=lambda house: reach_page(house, "/v1/topics", limits.PAGE_ITEMS_MAX),
        says=("limit: '1001' is not within 1 to 1000",),
    ),
    "PAGE_ITEMS_DEFAULT": ByTest(
        outcome="a default",
        test="tests/control_plane/api/test_lists.py::test_a_page_has_so_many_items_where_nothing_is_said",
    ),
    "AUDIT_EXPORT_ENTRIES_MAX": Reached(
        code=ErrorCode.INVALID_REQUEST,
        reach=lambda house: reach_page(house, "/v1/audit/export", limits.AUDIT_EXPORT_ENTRIES_MAX),
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
        lambda house: reach_over(house, "partitions_max", 1, lambda: reach_create(house, partitions=2)),
        "partitions_max: one needs 2, 0 of 1 are used by the tenant; delete a topic, or ask for a higher limit",
    ),
    "topics_max": of_tenant(reach_topics, "topics_max: b needs 1, 1 of 1 are used by the tenant; delete a topic"),
    "retention_ms_max": of_tenant(
        lambda house: reach_bounded_topic(house, "retention_ms_max", limits.DAY_MS, retention_ms=UNLIMITED),
        "retention_ms_max: retention_ms of one would be no end, at most 86400000 allowed to the tenant; name a",
    ),
    "message_bytes_max": of_tenant(
        lambda house: reach_bounded_topic(house, "message_bytes_max", 1_000, max_message_bytes=2_000),
        "message_bytes_max: max_message_bytes of one would be 2000, at most 1000 allowed to the tenant; name a",
    ),
    "service_accounts_max": of_tenant(
        reach_accounts, "service_accounts_max: b needs 1, 1 of 1 are used by the tenant; delete one first"
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
    "keys_max": of_tenant(reach_keys, "keys_max: a key needs 1, 1 of 1 are used by the tenant; revoke one"),
    "rest_calls_per_s": of_tenant(
        reach_rest_calls, "rest_calls_per_s of tenant ", " is 1 a second, and 1 were made; clears in 1 s",
        code=ErrorCode.THROTTLED,
    ),
    "rest_processor_ms_per_s": of_tenant(
        reach_processor_time, "rest_processor_ms_per_s of tenant ", " is 1 a second, with at most 5 ahead, and ",
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
    "broker_processor_ms_per_s": ByTest(
        outcome="delayed, or THROTTLED for a call",
        test="tests/unit/node/admission/test_processor_time.py::"
        "test_a_call_that_has_waited_too_long_is_refused_with_the_limit_its_use_and_when_it_clears",
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
    "groups_max": used(reach_seats, "groups_max: the tenant has 3 consumer groups, at most 3 allowed; delete some"),
    "storage_bytes_max": ByTest(
        outcome="THROTTLED until space is free",
        test="tests/simulation/test_storage_limit.py::"
        "test_the_refusal_names_limit_use_and_what_clears_it_and_hits_that_tenant_alone",
    ),
    "partition_changes_per_hour": of_tenant(
        reach_partition_changes,
        "partition_changes_per_hour: b needs 1 changes of topics and partitions, 1 of 1 were made",
        "; clears in 3", code=ErrorCode.THROTTLED,
    ),
}  # fmt: skip


STOOD_IN = {"PARTITIONS_PER_STREAM_MAX"}
"""Limits that are reached with a stand-in for what mypyc gives a type."""


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
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.pure] if name in STOOD_IN else []) for name in WALK]
)
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
