"""Entries and scopes that mean nothing are refused; circles are named; what decides is told."""

import pytest

from penstock.contract import limits
from penstock.contract.errors import InvalidRequest, LimitExceeded
from penstock.rules import access
from penstock.rules.access import Access, AccessList, Acl, Question, Scope


def acl(**given: object) -> Acl:
    values: dict[str, object] = {
        "effect": "allow",
        "principal": "service_account:sa_1",
        "resource": "topic",
        "name": "orders",
    }
    return Acl(**{**values, **given})  # type: ignore[arg-type]


def ask(operation: str = "consume", name: str = "orders", **given: str) -> Question:
    values = {"principal": "service_account:sa_1", "resource": "topic"}
    return Question(operation=operation, name=name, **{**values, **given})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"effect": "permit"}, "neither allow nor deny"),
        ({"principal": "sa_1"}, "is not person:<id>, service_account:<id>, group:<id> or everyone"),
        ({"principal": "person:"}, "principal"),
        ({"principal": "person:" + "x" * 64}, "principal"),
        ({"principal": "person:a\nb"}, "principal"),
        ({"resource": "queue"}, "is not one of topic, group, transactional_id, tenant"),
        ({"resource": "tenant"}, "a tenant has no name"),
        ({"name": "", "literal": True}, "name: required of a literal topic"),
        ({"name": "x" * 250}, "1 to 249"),
        ({"name": "a\u202e\n"}, "printable"),
        ({"operations": ("read",)}, "'read' of a topic is not one of describe, produce"),
        ({"resource": "group", "operations": ("produce",)}, "of a group"),
        ({"addresses": ("10.0.0.1/8",)}, "host bits"),
        ({"addresses": ("here",)}, "no range of IP addresses"),
    ],
)
def test_an_entry_that_means_nothing_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        acl(**given)


def test_the_parts_of_an_access_list_are_bounded() -> None:
    AccessList(acls=(acl(),) * limits.ACLS_PER_TENANT_MAX)
    with pytest.raises(LimitExceeded, match="1001 entries"):
        AccessList(acls=(acl(),) * (limits.ACLS_PER_TENANT_MAX + 1))
    with pytest.raises(LimitExceeded, match="17 ranges"):
        acl(addresses=("10.0.0.0/8",) * (limits.ACL_ADDRESSES_MAX + 1))
    with pytest.raises(LimitExceeded, match="2001 ranges"):
        AccessList(acls=(*(acl(addresses=("10.0.0.0/8",) * 10),) * 200, acl(addresses=("::1",))))
    groups = tuple((f"group:{n}", ()) for n in range(limits.PRINCIPAL_GROUPS_PER_TENANT_MAX + 1))
    with pytest.raises(LimitExceeded, match="101 groups"):
        AccessList(members=groups)
    many = tuple(f"person:{n}" for n in range(limits.PRINCIPAL_GROUP_MEMBERS_PER_TENANT_MAX + 1))
    with pytest.raises(LimitExceeded, match="2001 members"):
        AccessList(members=(("group:a", many),))


def test_a_circle_of_groups_is_named() -> None:
    circle = access.circle_among(
        [("group:a", ["group:b"]), ("group:b", ["person:1", "group:c"]), ("group:c", ["group:a"])]
    )
    assert circle[0] == circle[-1] and set(circle) == {"group:a", "group:b", "group:c"}
    assert access.circle_among([("group:a", ["group:a"])]) == ["group:a", "group:a"]


def test_groups_that_share_a_member_are_no_circle_however_many_ways_lead_to_it() -> None:
    ladder = [(f"group:{n}", [f"group:{n + 1}", f"group:{n + 2}"]) for n in range(98)]
    assert access.circle_among(ladder) == []
    rules = AccessList(default="deny", members=tuple((g, tuple(m)) for g, m in ladder), acls=())
    assert len(Access(rules).identities("group:99")) == 100


def test_the_answer_says_what_decided() -> None:
    rules = Access(
        AccessList(
            default="deny",
            acls=(
                acl(operations=("consume",)),
                acl(effect="deny", principal="group:g", addresses=("10.0.0.0/8",)),
            ),
            members=(("group:g", ("service_account:sa_1",)),),
        )
    )
    assert rules.decide(ask()).reason.startswith(
        "an entry denies it: deny group:g everything on topic orders*"
    )
    allowed = rules.decide(ask(address="192.0.2.1"))
    assert (
        allowed.allowed
        and allowed.reason == "an entry allows it: allow service_account:sa_1 consume on topic orders*"
    )
    refused = rules.decide(ask("produce", address="192.0.2.1"))
    assert not refused.allowed and refused.acl is None
    assert refused.reason.startswith("no entry allows produce to service_account:sa_1")


def test_an_address_that_is_not_known_is_denied_and_not_allowed() -> None:
    near = ("10.0.0.0/8",)
    denying = Access(AccessList(acls=(acl(effect="deny", addresses=near),)))
    assert not denying.decide(ask(address="a-socket")).allowed
    assert denying.decide(ask(address="192.0.2.1")).allowed
    allowing = Access(AccessList(default="deny", acls=(acl(addresses=near),)))
    assert not allowing.decide(ask(address="")).allowed
    assert allowing.decide(ask(address="::ffff:10.0.0.1")).allowed


@pytest.mark.parametrize("near", ["::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "::ffff:0:0/96"])
@pytest.mark.parametrize("address", ["10.0.0.1", "::ffff:10.0.0.1"])
def test_a_range_of_ipv4_within_ipv6_is_one_of_ipv4(near: str, address: str) -> None:
    denying = Access(AccessList(acls=(acl(effect="deny", addresses=(near,)),)))
    assert not denying.decide(ask(address=address)).allowed
    assert denying.decide(ask(address="2001:db8::1")).allowed
    allowing = Access(AccessList(default="deny", acls=(acl(addresses=(near,)),)))
    assert allowing.decide(ask(address=address)).allowed


def test_who_may_not_describe_a_topic_may_do_nothing_with_it() -> None:
    hiding = Access(AccessList(acls=(acl(effect="deny", operations=("describe",)),)))
    for operation in access.OPERATIONS_OF["topic"]:
        assert not hiding.decide(ask(operation)).allowed, operation
    narrow = Access(AccessList(acls=(acl(effect="deny", operations=("produce",)),)))
    assert narrow.decide(ask("describe")).allowed and narrow.decide(ask("consume")).allowed


def test_the_service_is_bound_by_no_entry() -> None:
    rules = Access(AccessList(default="deny", acls=(acl(effect="deny", principal="everyone", name=""),)))
    assert rules.decide(ask(principal=access.SERVICE)).allowed
    assert not rules.decide(ask(principal="")).allowed


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        (Scope(resource="queue"), "resource"),
        (Scope(operations=("alter",)), "need a scope that names its kind"),
        (Scope(literal=True), "required of a literal"),
        (Scope(resource="tenant", name="x"), "no name"),
    ],
)
def test_a_scope_that_means_nothing_is_refused(scope: Scope, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        access.check_scope(scope)


def test_a_preset_is_entries_that_anyone_could_write() -> None:
    made = access.preset(
        "consumer", principal="group:g", resource_name="orders", literal=True, group_prefix="billing-"
    )
    assert [access.described(one) for one in made] == [
        "allow group:g describe, consume on topic orders",
        "allow group:g describe, consume on group billing-*",
    ]
    with pytest.raises(InvalidRequest, match="producer, consumer, owner, read-only"):
        access.preset("boss", principal="group:g", resource_name="", literal=False, group_prefix="")


def test_a_scope_that_names_no_kind_is_of_topics_and_groups_alone() -> None:
    for resource in access.RESOURCES:
        granted = access.scope_grants(Scope(), "describe", resource, "")
        assert granted == (resource in ("topic", "group")), resource
    assert not access.scope_grants(Scope(resource="group"), "consume", "topic", "orders")


def test_the_scope_of_a_prefix_is_not_within_that_of_the_one_name() -> None:
    one, all_that_begin_so = Scope(name="orders", literal=True), Scope(name="orders")
    assert not access.within([all_that_begin_so], [one])
    assert access.within([one], [all_that_begin_so])
