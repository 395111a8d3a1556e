"""Rows of the walk over every limit, and the ways to reach a limit."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

from control_plane.access import list_actions
from control_plane.audit.actor import Actor, ActorKind
from control_plane.rest.processor_time import AHEAD_S_MAX
from control_plane.rest.tenant_rates import tenant_rates
from control_plane.topics import actions as topics
from data_plane.controller import tenants as controller
from data_plane.groups.group import Draft, Group
from data_plane.groups.records import Member
from data_plane.log.producers import Producers
from data_plane.metadata import model
from data_plane.metadata.group_seats import GroupSeatsRecord
from data_plane.metadata.image import ClusterImage
from data_plane.node.ports import CallFailed
from data_plane.node.serving.consume_stream import ConsumeStream
from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId
from penstock.contract.topic_settings import TopicSettings
from penstock.rules import access_document
from penstock.rules.access import AccessList, Acl
from penstock.rules.budgets import Budget
from penstock.rules.names import check_printable_name, is_domain_name
from penstock.rules.principal_limits import PrincipalLimits
from quotas import actions
from tenants import actions as tenant_actions
from tenants.models import Person, Tenant
from tenants.organisations import actions as organisations
from tenants.organisations import tenant_actions as tenant_moves
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, House, call, make_organisation


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
ENTRY = Acl(effect="allow", principal="person:1", operations=("describe",), resource="topic", name="a")


def reach_draft(members: int, topics_each: int = 1) -> Draft:
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


def reach_list(**parts: Any) -> AccessList:
    return AccessList(**parts)


def reach_ranges(count: int) -> tuple[str, ...]:
    return ("10.0.0.0/8",) * count


def reach_entries_of(ranges: int) -> tuple[Acl, ...]:
    return (replace(ENTRY, addresses=reach_ranges(10)),) * (ranges // 10) + (
        replace(ENTRY, addresses=reach_ranges(1)),
    )


def reach_long_list() -> str:
    acls = tuple(
        replace(ENTRY, name=f"{number:04d}" + "n" * 200, addresses=reach_ranges(16)[:2])
        for number in range(1_000)
    )
    members = tuple(
        (f"group:{n}", tuple(f"service_account:{m:0250d}" for m in range(20))) for n in range(100)
    )
    return access_document.access_list_json(reach_list(acls=acls, members=members))


def reach_producers() -> None:
    table = Producers(table_max=1)
    table.apply(1, 0, 0, 1, 0, 1_000)
    batch = SimpleNamespace(producer_id=2, producer_epoch=0, base_sequence=0, offset_span=1, is_control=False)
    table._check_unknown(cast(Any, batch), 1_000, lambda: "orders-0")


def reach_opened_partitions() -> None:
    stream = SimpleNamespace(_opened=range(limits.PARTITIONS_PER_STREAM_MAX), _close=lambda handle: None)
    ConsumeStream._open(cast(Any, stream), cast(Any, SimpleNamespace(handle=1)), "")


def reach_key_of(scopes: int, name: str = "k") -> None:
    bindings = [model.Binding(topic_prefix="a")] * scopes
    image = ClusterImage()
    image.tenants[TenantId("t")] = model.TenantRecord(tenant=TenantId("t"))
    controller.put_key(
        image, None, key_id="k" * 12, tenant=TenantId("t"), name=name, pepper_version=1,
        secret_hmac="0" * 64, scram={}, bindings=bindings,
    )  # fmt: skip


def reach_rate() -> None:
    quotas = model.TenantQuotas(produce_bytes_per_s=limits.PRODUCE_BYTES_PER_S_MAX + 1)
    controller.put_tenant(ClusterImage(), "t", quotas=quotas)


def reach_consume_rate() -> None:
    quotas = model.TenantQuotas(consume_bytes_per_s=limits.CONSUME_BYTES_PER_S_MAX + 1)
    controller.put_tenant(ClusterImage(), "t", quotas=quotas)


def reach_quota(**quotas: int) -> None:
    controller.put_tenant(ClusterImage(), "t", quotas=model.TenantQuotas(**quotas))


def reach_principal_limits() -> None:
    principals = {f"service_account:{n}": PrincipalLimits() for n in range(1_002)}
    controller.put_tenant(ClusterImage(), "t", quotas=model.TenantQuotas(), principals=principals)


def reach_budgets() -> None:
    budgets = [
        Budget(
            budget_id=f"b{n}",
            name="b",
            period="day",
            amount=1,
            unit="messages",
            policy="notify",
            message_in=1,
        )
        for n in range(limits.BUDGETS_PER_TENANT_MAX + 1)
    ]
    controller.put_tenant(ClusterImage(), "t", quotas=model.TenantQuotas(), budgets=budgets)


def reach_zone() -> None:
    name = "z" * (limits.DOMAIN_NAME_LENGTH_MAX + 1)
    assert not is_domain_name(name)
    check_printable_name("zone", name, limits.DOMAIN_NAME_LENGTH_MAX)


def reach_create(house: House, name: str = "one", partitions: int = 1, **settings: Any) -> None:
    topics.create_topic(ACTOR, house.tenant, name=name, partitions=partitions, settings=settings)


def reach_over(house: House, limit: str, most: int, act: Callable[[], object]) -> None:
    """`act` twice under a limit of `most`: the last one is above it."""
    named: dict[str, Any] = {limit: most}
    actions.set_limits(ACTOR, house.tenant, **named)
    for _ in range(most + 1):
        act()


def reach_topics(house: House) -> None:
    names = iter("abc")
    reach_over(house, "topics_max", 1, lambda: reach_create(house, next(names)))


def reach_keys(house: House) -> None:
    actions.set_limits(ACTOR, house.tenant, keys_max=1)
    owner = house.credentials[Standing.OWNER]
    answer = [call("POST", "/v1/keys", {"name": "k"}, token=owner) for _ in range(2)][-1]
    assert answer.body["limit"] == "keys_max"
    raise CallFailed(ErrorCode[answer.body["code"].upper()], answer.body["detail"])


def reach_accounts(house: House) -> None:
    names = iter("abc")
    reach_over(
        house,
        "service_accounts_max",
        1,
        lambda: list_actions.create_account(ACTOR, house.tenant, name=next(names)),
    )


def reach_bounded_topic(house: House, limit: str, most: int, **settings: Any) -> None:
    named: dict[str, Any] = {limit: most}
    actions.set_limits(ACTOR, house.tenant, **named)
    reach_create(house, **settings)


def reach_rest_calls(house: House) -> None:
    actions.set_limits(ACTOR, house.tenant, rest_calls_per_s=1)
    tenant_rates.forget_all()
    for _ in range(100):
        answer = call("GET", "/v1/topics", token=house.credentials[Standing.OWNER])
        if answer.status == 429:
            assert int(answer.headers["Retry-After"]) == 1 and answer.body["limit"] == "rest_calls_per_s"
            raise CallFailed(ErrorCode.THROTTLED, answer.body["detail"])


def reach_processor_time(house: House) -> None:
    actions.set_limits(ACTOR, house.tenant, rest_processor_ms_per_s=1)
    tenant_rates.forget_all()
    for _ in range(100):
        answer = call("GET", "/v1/topics", token=house.credentials[Standing.OWNER])
        if answer.status == 429:
            assert 1 <= int(answer.headers["Retry-After"]) <= AHEAD_S_MAX
            assert answer.body["limit"] == "rest_processor_ms_per_s"
            raise CallFailed(ErrorCode.THROTTLED, answer.body["detail"])


def reach_partition_changes(house: House) -> None:
    actions.set_limits(ACTOR, house.tenant, partition_changes_per_hour=1)
    owner = house.credentials[Standing.OWNER]
    answer = [call("POST", "/v1/topics", {"name": name, "partitions": 1}, token=owner) for name in "ab"][-1]
    assert answer.status == 429 and answer.body["limit"] == "partition_changes_per_hour"
    raise CallFailed(ErrorCode[answer.body["code"].upper()], answer.body["detail"])


def reach_tenants_of_a_person(house: House) -> None:
    person = Person.objects.create(email="many@example.com", tenants_max=0)
    tenant_actions.create_tenant(ACTOR, name="more", owner=person)


def reach_organisations_of_a_person(house: House) -> None:
    person = Person.objects.create(email="many@example.com")
    actor = Actor(kind=ActorKind.PERSON, id=person.public_id)
    for number in range(limits.ORGANISATIONS_PER_PERSON_MAX + 1):
        organisations.create(actor, person, name=f"o-{number}")


def reach_tenants_of_an_organisation(house: House) -> None:
    full = make_organisation(house, "full")
    Tenant.objects.bulk_create(
        Tenant(public_id=f"tn_full_{number}", name=f"full-{number}", organisation=full)
        for number in range(limits.TENANTS_PER_ORGANISATION_MAX)
    )
    owner = Person.objects.get(memberships__tenant=house.tenant, memberships__role="owner")
    actor = Actor(kind=ActorKind.PERSON, id=owner.public_id)
    tenant_moves.move_in(actor, full, house.tenant.public_id)


def reach_page(house: House, path: str, most: int) -> None:
    answer = call("GET", f"{path}?limit={most + 1}", token=house.credentials[Standing.OWNER])
    assert answer.status == 400
    raise CallFailed(ErrorCode.INVALID_REQUEST, answer.body["detail"])


def reach_seats() -> None:
    GroupSeatsRecord().counted(0, 1, 3).taken(1, 1, 0, 3)
