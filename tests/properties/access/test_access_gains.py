"""What the comparison of two lists finds is a right that is given; where it finds none, no name and address has one."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.rules import access
from penstock.rules.access import Access, AccessList, Acl, Question
from penstock.rules.access_gains import right_beyond, right_by_new_name, right_given

from .test_access_lists import ADDRESSES, PEOPLE, lists

NAMES = ["o", "orders", "orders.eu", "orders.e", "pay", "p", "ords", "x"]
"""More than entries name: what stands between their names too."""
MORE_ADDRESSES = [
    *ADDRESSES,
    "9.255.255.255",
    "10.0.255.255",
    "10.2.0.0",
    "11.0.0.0",
    "192.0.2.8",
    "2001:db9::",
]


def questions(principal: str) -> list[Question]:
    return [
        Question(principal=principal, operation=operation, resource=resource, name=name, address=address)
        for resource, operations in access.OPERATIONS_OF.items()
        for operation in operations
        for name in ([""] if resource == access.TENANT else NAMES)
        for address in MORE_ADDRESSES
    ]


def may(rules: AccessList, question: Question, principal: str) -> bool:
    asked = Question(
        principal=principal,
        operation=question.operation,
        resource=question.resource,
        name=question.name,
        address=question.address,
    )
    return Access(rules).decide(asked).allowed


@given(before=lists, after=lists, giver=st.sampled_from(PEOPLE))
def test_a_change_gives_a_right_exactly_where_the_comparison_says_so(
    before: AccessList, after: AccessList, giver: str
) -> None:
    right = right_given(before, after, giver, PEOPLE)
    if right is not None:
        assert may(after, right, right.principal)
        assert not may(before, right, right.principal) and not may(before, right, giver)
        return
    old, new = Access(before), Access(after)
    for principal in ("", *PEOPLE):
        for question in questions(principal):
            if new.decide(question).allowed and not old.decide(question).allowed:
                assert may(before, question, giver), question


@given(rules=lists, principal=st.sampled_from([*PEOPLE, ""]), giver=st.sampled_from(PEOPLE))
def test_a_principal_is_beyond_another_exactly_where_the_comparison_says_so(
    rules: AccessList, principal: str, giver: str
) -> None:
    right = right_beyond(rules, principal, giver)
    if right is not None:
        assert may(rules, right, principal) and not may(rules, right, giver)
        return
    ready = Access(rules)
    for question in questions(principal):
        if ready.decide(question).allowed:
            assert may(rules, question, giver), question


@given(rules=lists, old=st.sampled_from(NAMES), new=st.sampled_from(NAMES), principal=st.sampled_from(PEOPLE))
def test_a_new_name_gives_a_right_exactly_where_the_comparison_says_so(
    rules: AccessList, old: str, new: str, principal: str
) -> None:
    right = right_by_new_name(rules, principal, access.TOPIC, old, new)
    gained = [
        question
        for question in questions(principal)
        if question.resource == access.TOPIC
        and question.name == new
        and may(rules, question, principal)
        and not Access(rules)
        .decide(
            Question(
                principal=principal,
                operation=question.operation,
                resource=access.TOPIC,
                name=old,
                address=question.address,
            )
        )
        .allowed
    ]
    assert (right is None) == (not gained), (right, gained[:1])


GIVER, OTHER = PEOPLE[:2]


def allows(principal: str, name: str, *, literal: bool = False, addresses: tuple[str, ...] = ()) -> Acl:
    return Acl(
        effect=access.ALLOW,
        principal=principal,
        resource=access.TOPIC,
        name=name,
        literal=literal,
        operations=(access.CONSUME,),
        addresses=addresses,
    )


def test_who_may_one_topic_does_not_give_those_whose_names_begin_with_its_name() -> None:
    own = allows(GIVER, "orders", literal=True)
    before = AccessList(default=access.DENY, acls=(own,))
    assert right_given(before, replace(before, acls=(own, allows(OTHER, "orders"))), GIVER, PEOPLE)
    same = replace(before, acls=(own, allows(OTHER, "orders", literal=True)))
    assert right_given(before, same, GIVER, PEOPLE) is None


def test_who_may_from_one_range_does_not_give_more_addresses_on_either_side() -> None:
    own = allows(GIVER, "orders", addresses=("10.1.0.0/16",))
    before = AccessList(default=access.DENY, acls=(own,))
    for addresses in ((), ("10.0.0.0/15",), ("10.1.0.0/16", "10.2.0.0/32"), ("10.1.0.0/16", "2001:db8::/32")):
        wider = replace(before, acls=(own, allows(OTHER, "orders", addresses=addresses)))
        assert right_given(before, wider, GIVER, PEOPLE), addresses
    low = replace(before, acls=(allows(GIVER, "orders", addresses=("10.0.0.0/16",)),))
    ends_later = replace(low, acls=(*low.acls, allows(OTHER, "orders", addresses=("10.0.0.0/15",))))
    assert right_given(low, ends_later, GIVER, PEOPLE), "both begin at one address"
    narrower = replace(before, acls=(own, allows(OTHER, "orders.eu", addresses=("10.1.2.0/24",))))
    assert right_given(before, narrower, GIVER, PEOPLE) is None


def test_who_is_denied_does_not_free_those_who_come_later() -> None:
    denied = tuple(replace(allows(principal, "secrets"), effect=access.DENY) for principal in PEOPLE)
    everyone = replace(denied[0], principal=access.EVERYONE)
    before = AccessList(default=access.ALLOW, acls=(*denied, everyone))
    right = right_given(before, replace(before, acls=denied), GIVER, PEOPLE)
    assert right is not None and not right.principal
