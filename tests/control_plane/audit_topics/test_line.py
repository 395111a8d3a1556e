"""The topic with a tenant's audit log: switched on and off, written in order, and who makes keys that read it."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from billing import queries as billing
from control_plane.access import actions as access
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit_topics import actions, queries
from control_plane.audit_topics.line import PAGE_BYTES, AuditTopicLine, message_of
from control_plane.audit_topics.models import AuditTopic
from control_plane.audit_topics.sending import Message, NotSent
from control_plane.brokers.view import TenantUseSeen
from control_plane.couriers import leases
from control_plane.reconciliation import purging
from control_plane.topics import actions as topics
from control_plane.topics import bin_actions, plan_use
from control_plane.topics.models import Topic
from control_plane.topics.plan_refusals import AUDIT_MESSAGE_BYTES_MIN
from penstock.client.settings import ConnectionSettings
from penstock.contract.api_keys import parse_api_key
from penstock.contract.audit_entries import ChainCheck
from penstock.contract.errors import Forbidden, InvalidRequest, LimitExceeded, NotFound
from penstock.rules.access import CONSUME, DESCRIBE, PRODUCE, TOPIC, Scope
from penstock.rules.names import AUDIT_TOPIC
from quotas import actions as quotas
from tenants import actions as tenants
from tenants.closing import actions as closing
from tenants.models import Membership, Tenant
from tenants.roles import Role, Standing
from tests.control_plane.webhooks.hooked import happen
from tests.control_plane.world import ACTOR, House, call, everything_delivered, make_house

READS = Scope(resource=TOPIC, name=AUDIT_TOPIC, literal=True, operations=(DESCRIBE, CONSUME))


@dataclass
class Brokers:
    """Takes batches, or says why not; `after` is called when a batch is in, before it is answered."""

    got: list[Message] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    refusal: str = ""
    lose_answers: int = 0

    def send(self, to: ConnectionSettings, topic: str, messages: Sequence[Message]) -> None:
        if self.refusal:
            raise NotSent(self.refusal)
        assert topic == AUDIT_TOPIC and to.api_key is not None
        self.keys.append(to.api_key)
        self.got += messages
        if self.lose_answers:
            self.lose_answers -= 1
            raise NotSent("the answer was lost")


@pytest.fixture
def house(db: None) -> House:
    return make_house("acme")


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


def person_of(house: House, role: Role) -> Actor:
    member = Membership.objects.get(tenant=house.tenant, role=role)
    return Actor(kind=ActorKind.PERSON, id=member.person.public_id)


def take_turn(tenant: Tenant, brokers: Brokers) -> bool:
    """One courier's turn, if the topic is due once its pause is over."""
    AuditTopic.objects.filter(tenant=tenant).update(due_at=timezone.now() - timedelta(seconds=1))
    found = [row for row in queries.due(timezone.now(), most=10, without=()) if row.tenant_id == tenant.pk]
    if not found:
        return False
    claimed = leases.claim(found[0])
    assert claimed is not None
    AuditTopicLine(brokers).turn(claimed, lambda: False)
    return True


def on(house: House) -> None:
    actions.change(person_of(house, Role.OWNER), house.tenant, state="on")


def entries(brokers: Brokers) -> Iterator[dict[str, object]]:
    for message in brokers.got:
        yield json.loads(message.value)


def test_the_whole_log_comes_in_order_and_proves_itself(house: House, brokers: Brokers) -> None:
    happen(house.tenant, *[f"topic.n{n}" for n in range(450)])
    on(house)
    assert take_turn(house.tenant, brokers)
    check = ChainCheck(house.tenant.public_id)
    for message, entry in zip(brokers.got, entries(brokers), strict=True):
        assert check.problem(entry) == ""
        assert (message.key, message.headers) == (
            str(check.sequence),
            {"sequence": str(check.sequence), "hash": check.hash},
        )
    state = queries.state_of(house.tenant)
    assert (check.sequence, state.lag) == (state.newest, 0) and state.newest > 450
    assert not take_turn(house.tenant, brokers), "nothing is left"


def test_what_the_brokers_do_not_take_waits_and_comes(house: House, brokers: Brokers) -> None:
    on(house)
    brokers.refusal = "BrokerUnavailable: no broker answers"
    take_turn(house.tenant, brokers)
    take_turn(house.tenant, brokers)
    state = queries.state_of(house.tenant)
    assert (state.position, state.failures, state.problem) == (0, 2, brokers.refusal)
    assert state.lag == state.newest > 0 and queries.lags() == {house.tenant.public_id: state.newest}
    brokers.refusal = ""
    take_turn(house.tenant, brokers)
    state = queries.state_of(house.tenant)
    assert (state.lag, state.failures, state.problem, state.failing_since) == (0, 0, "", None)


def test_an_answer_that_is_lost_brings_entries_twice_and_loses_none(house: House, brokers: Brokers) -> None:
    on(house)
    brokers.lose_answers = 1
    take_turn(house.tenant, brokers)
    assert queries.state_of(house.tenant).position == 0
    take_turn(house.tenant, brokers)
    sequences = [entry["sequence"] for entry in entries(brokers)]
    newest = queries.state_of(house.tenant).newest
    assert sequences == [*range(1, newest + 1)] * 2


def test_a_courier_whose_lease_is_gone_moves_nothing(house: House, brokers: Brokers) -> None:
    on(house)
    row = AuditTopic.objects.get()
    claimed = leases.claim(row)
    assert claimed is not None and leases.claim(row) is None, "another courier has it"
    actions.change(person_of(house, Role.OWNER), house.tenant, state="off")
    assert not actions.note_delivered(claimed, 1)
    assert queries.state_of(house.tenant).position == 0


def test_switched_off_it_stays_and_on_again_it_goes_on(house: House, brokers: Brokers) -> None:
    on(house)
    take_turn(house.tenant, brokers)
    (first,) = set(brokers.keys)
    actions.change(person_of(house, Role.OWNER), house.tenant, state="off")
    happen(house.tenant, "topic.meanwhile")
    assert not take_turn(house.tenant, brokers)
    state = queries.state_of(house.tenant)
    assert (state.state, state.exists) == ("off", True) and queries.lags() == {}
    on(house)
    take_turn(house.tenant, brokers)
    sequences = [entry["sequence"] for entry in entries(brokers)]
    assert sequences == [*range(1, len(sequences) + 1)], "each once, none left out"
    assert brokers.keys[-1] != first, "the key before was revoked"
    assert Topic.objects.filter(tenant=house.tenant, name=AUDIT_TOPIC).count() == 1


def test_deleted_it_is_made_again_from_the_first_entry(house: House, brokers: Brokers) -> None:
    on(house)
    take_turn(house.tenant, brokers)
    actions.delete(person_of(house, Role.OWNER), house.tenant)
    state = queries.state_of(house.tenant)
    assert (state.state, state.exists, state.position) == ("off", False, 0)
    with pytest.raises(NotFound):
        actions.delete(person_of(house, Role.OWNER), house.tenant)
    brokers.got.clear()
    on(house)
    take_turn(house.tenant, brokers)
    assert [entry["sequence"] for entry in entries(brokers)][:2] == [1, 2]


def test_no_one_changes_or_deletes_the_topic_by_hand(house: House) -> None:
    on(house)
    owner = person_of(house, Role.OWNER)
    tries: list[Callable[[], object]] = [
        lambda: topics.update_topic(owner, house.tenant, AUDIT_TOPIC, partitions=2),
        lambda: topics.delete_topic(owner, house.tenant, AUDIT_TOPIC),
        lambda: bin_actions.remove_topic(owner, house.tenant, AUDIT_TOPIC),
        lambda: bin_actions.remove_topic(owner, house.tenant, AUDIT_TOPIC, purge=True),
        lambda: topics.create_topic(owner, house.tenant, name=AUDIT_TOPIC, partitions=1, settings={}),
    ]
    for change in tries:
        with pytest.raises(InvalidRequest, match="service's own"):
            change()
    assert Topic.objects.get(tenant=house.tenant, name=AUDIT_TOPIC).partitions == 1


def test_it_counts_as_any_topic(house: House) -> None:
    quotas.set_limits(ACTOR, house.tenant, topics_max=1)
    topics.create_topic(ACTOR, house.tenant, name="orders", partitions=1, settings={})
    with pytest.raises(LimitExceeded, match="topics_max: __audit needs 1, 1 of 1 are used"):
        on(house)
    assert queries.state_of(house.tenant).state == "off"


def test_it_keeps_entries_as_long_as_asked_and_as_the_plan_allows(house: House) -> None:
    owner = person_of(house, Role.OWNER)
    quotas.set_limits(ACTOR, house.tenant, retention_ms_max=7_200_000)
    on(house)
    topic = Topic.objects.get(tenant=house.tenant, name=AUDIT_TOPIC)
    assert (topic.settings["retention_ms"], topic.partitions) == (7_200_000, 1)
    with pytest.raises(LimitExceeded, match="retention_ms_max"):
        actions.change(owner, house.tenant, retention_ms=-1)
    with pytest.raises(InvalidRequest, match="retention_ms"):
        actions.change(owner, house.tenant, retention_ms=0)
    actions.change(owner, house.tenant, retention_ms=3_600_000)
    topic.refresh_from_db()
    assert topic.settings["retention_ms"] == queries.state_of(house.tenant).retention_ms == 3_600_000


def test_a_key_that_is_revoked_by_hand_is_replaced(house: House, brokers: Brokers) -> None:
    on(house)
    take_turn(house.tenant, brokers)
    row = AuditTopic.objects.get()
    assert row.key is not None
    tenants.revoke_key(person_of(house, Role.OWNER), row.key)
    take_turn(house.tenant, brokers)
    assert len(set(brokers.keys)) == 2
    assert queries.state_of(house.tenant).lag <= 2, "its own key's entries come with the next turn"


def test_closed_and_suspended_tenants_wait_and_a_purged_one_is_forgotten(
    house: House, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(house)
    tenants.set_suspended(ACTOR, house.tenant, True)
    assert not take_turn(house.tenant, brokers)
    tenants.set_suspended(ACTOR, house.tenant, False)
    closing.close(ACTOR, house.tenant)
    assert not take_turn(house.tenant, brokers)
    Tenant.objects.filter(pk=house.tenant.pk).update(
        purge_at=timezone.now() - timedelta(days=1), delivered_generation=1_000
    )
    monkeypatch.setattr(billing, "is_billed_until", lambda *_: True)
    monkeypatch.setattr(billing, "is_invoiced_until", lambda *_: True)
    assert purging.drive_closed() == 1
    assert not AuditTopic.objects.exists() and queries.topic_of(house.tenant) is None


def test_a_small_limit_of_the_tenants_messages_holds_up_no_entry(house: House, brokers: Brokers) -> None:
    quotas.set_limits(ACTOR, house.tenant, message_bytes_max=100)
    on(house)
    topic = Topic.objects.get(tenant=house.tenant, name=AUDIT_TOPIC)
    assert topic.settings["max_message_bytes"] == AUDIT_MESSAGE_BYTES_MIN
    assert take_turn(house.tenant, brokers) and list(entries(brokers))
    before = len(brokers.got)
    assert not any(entry.get("truncated") for entry in entries(brokers))
    with pytest.raises(LimitExceeded, match="message_bytes_max"):
        topics.create_topic(ACTOR, house.tenant, name="orders", partitions=1, settings={})
    assert plan_use.uses(house.tenant, TenantUseSeen())["message_bytes_max"] == 0, "it is the service's own"
    topic.settings["max_message_bytes"] = 100
    topic.save()
    happen(house.tenant, "topic.update")
    assert take_turn(house.tenant, brokers) and len(brokers.got) == before, (
        "one of a release before is widened"
    )
    assert Topic.objects.get(pk=topic.pk).settings["max_message_bytes"] == AUDIT_MESSAGE_BYTES_MIN
    assert take_turn(house.tenant, brokers) and len(brokers.got) > before


def test_an_entry_that_is_too_large_is_shortened_and_holds_up_nothing() -> None:
    entry = {"sequence": 7, "hash": "ab", "before": {"x": "y" * 100}, "after": {}}
    assert json.loads(message_of(entry, 10_000).value) == entry
    assert json.loads(message_of(entry, 50).value) == {"sequence": 7, "hash": "ab", "truncated": True}


def test_a_page_of_large_entries_is_one_batch(house: House, brokers: Brokers) -> None:
    happen(house.tenant, *["topic.create"] * 4, name="x" * (PAGE_BYTES // 3))
    on(house)
    sizes: list[int] = []
    monkey = brokers.send

    def send(to: ConnectionSettings, topic: str, messages: Sequence[Message]) -> None:
        sizes.append(sum(len(one.value) for one in messages))
        monkey(to, topic, messages)

    brokers.send = send  # type: ignore[method-assign]
    take_turn(house.tenant, brokers)
    assert len(sizes) > 1 and max(sizes) <= PAGE_BYTES
    assert queries.state_of(house.tenant).lag == 0


# -- who reads it -------------------------------------------------------------------------------------------


def test_those_who_may_read_the_log_make_keys_that_read_the_topic(house: House) -> None:
    for role in (Role.OWNER, Role.ADMIN):
        access.create_key(person_of(house, role), house.tenant, name="siem", scopes=[READS])
    with pytest.raises(Forbidden, match=r"audit\.read is required"):
        access.create_key(person_of(house, Role.DEVELOPER), house.tenant, name="siem", scopes=[READS])
    whole, _ = access.create_key(person_of(house, Role.OWNER), house.tenant, name="all")
    of_key = Actor(kind=ActorKind.KEY, id=whole.public_id)
    with pytest.raises(Forbidden, match=r"audit\.read is required"):
        access.create_key(of_key, house.tenant, name="siem", scopes=[READS])


@pytest.mark.parametrize("operations", [(), (PRODUCE,), (CONSUME, PRODUCE), ("delete",)])
def test_no_key_is_made_that_does_more_than_read_it(house: House, operations: tuple[str, ...]) -> None:
    scope = Scope(resource=TOPIC, name=AUDIT_TOPIC, literal=True, operations=operations)
    with pytest.raises(InvalidRequest, match="the service alone writes __audit"):
        access.create_key(person_of(house, Role.OWNER), house.tenant, name="x", scopes=[scope])


def test_who_may_no_longer_read_the_log_loses_such_keys(house: House) -> None:
    admin = person_of(house, Role.ADMIN)
    key, _ = access.create_key(admin, house.tenant, name="siem", scopes=[READS])
    other, _ = access.create_key(admin, house.tenant, name="app")
    assert access.revoke_audit_keys_beyond_their_makers(ACTOR) == []
    Membership.objects.filter(tenant=house.tenant, role=Role.ADMIN).update(role=Role.DEVELOPER)
    (revoked,) = access.revoke_audit_keys_beyond_their_makers(ACTOR)
    other.refresh_from_db()
    assert revoked.pk == key.pk and other.revoked_at is None


# -- over REST ----------------------------------------------------------------------------------------------


def test_the_setting_over_rest(house: House, brokers: Brokers) -> None:
    everything_delivered()
    owner, auditor = house.credentials[Standing.OWNER], house.credentials[Standing.AUDITOR]
    before = call("GET", "/v1/audit-topic", token=auditor, tenant=house.tenant)
    assert (before.body["state"], before.body["exists"], before.body["position"]) == ("off", False, 0)
    tried = call("PATCH", "/v1/audit-topic?dry_run=true", {"state": "on"}, token=owner, tenant=house.tenant)
    assert tried.status == 200 and queries.state_of(house.tenant).state == "off"
    refused = call("PATCH", "/v1/audit-topic", {"state": "on"}, token=auditor, tenant=house.tenant)
    assert refused.status == 403
    tag = before.headers["ETag"]
    made = call("PATCH", "/v1/audit-topic", {"state": "on"}, token=owner, tenant=house.tenant, If_Match=tag)
    assert made.status == 200 and made.body["state"] == "on" and made.body["lag"] == made.body["newest"] > 0
    late = call("DELETE", "/v1/audit-topic", token=owner, tenant=house.tenant, If_Match=tag)
    assert late.status == 412
    for method, path in (("DELETE", "/v1/topics/__audit"), ("PATCH", "/v1/topics/__audit")):
        by_hand = call(method, path, {} if method == "PATCH" else None, token=owner, tenant=house.tenant)
        assert by_hand.status == 400 and "service's own" in by_hand.body["detail"]
    assert call("DELETE", "/v1/audit-topic", token=owner, tenant=house.tenant).status == 204
    assert call("DELETE", "/v1/audit-topic", token=owner, tenant=house.tenant).status == 404


def test_another_tenant_sees_nothing_of_it(house: House) -> None:
    on(house)
    other = make_house("other")
    owner = other.credentials[Standing.OWNER]
    assert call("GET", "/v1/audit-topic", token=owner, tenant=house.tenant).status == 404
    mine = call("GET", "/v1/audit-topic", token=owner, tenant=other.tenant)
    assert (mine.body["state"], mine.body["exists"]) == ("off", False)


def test_the_text_of_the_services_key_is_stored_encrypted(house: House, brokers: Brokers) -> None:
    on(house)
    take_turn(house.tenant, brokers)
    row = AuditTopic.objects.get()
    secret = parse_api_key(brokers.keys[0]).secret
    assert row.secret and secret not in row.secret and row.key is not None
    AuditTopic.objects.update(secret=row.secret[:-6] + "AAAAAA")
    happen(house.tenant, "topic.create")
    take_turn(house.tenant, brokers)
    assert brokers.keys[-1] != brokers.keys[0], "one that cannot be read is replaced"


# -- in the console ------------------------------------------------------------------------------------------


def test_the_console_switches_it_on_and_off_and_deletes_it(house: House) -> None:
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.OWNER]
    page, switch = "/t/acme/audit/topic", "/t/acme/audit/topic/switch"
    assert b"Switch on" in client.get(page).content
    for to, expected in (("nonsense", ("off", False)), ("on", ("on", True)), ("off", ("off", True))):
        assert client.post(switch, {"to": to}).status_code == 302
        state = queries.state_of(house.tenant)
        assert (state.state, state.exists) == expected
    assert b"Delete the topic" in client.get(page).content
    client.post(switch, {"to": "delete"})
    assert not queries.state_of(house.tenant).exists
    client.cookies["penstock"] = house.credentials[Standing.AUDITOR]
    assert b"Switch on" not in client.get(page).content
    assert client.post(switch, {"to": "on"}).status_code == 403
