"""The evaluation of access lists gives what a plain reading of the entries gives, and rights move only one way."""

from dataclasses import replace
from ipaddress import IPv6Address, ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from penstock.rules import access
from penstock.rules.access import Access, AccessList, Acl, Question, Scope

PEOPLE = ["person:ann", "person:bob", "service_account:bill"]
GROUPS = ["group:a", "group:b", "group:c"]
NAMES = ["", "o", "orders", "orders.eu", "pay", "ords"]
RANGES = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "192.0.2.7/32",
    "2001:db8::/32",
    "0.0.0.0/0",
    "::/0",
    "::ffff:10.0.0.0/104",
]
ADDRESSES = ["10.1.2.3", "10.9.9.9", "192.0.2.7", "2001:db8::1", "::ffff:10.1.2.3", "", "somewhere"]

resources = st.sampled_from(access.RESOURCES)


@st.composite
def acls(draw: st.DrawFn) -> Acl:
    resource = draw(resources)
    name = "" if resource == access.TENANT else draw(st.sampled_from(NAMES))
    known = access.OPERATIONS_OF[resource]
    return Acl(
        effect=draw(st.sampled_from([access.ALLOW, access.DENY])),
        principal=draw(st.sampled_from([*PEOPLE, *GROUPS, access.EVERYONE])),
        resource=resource,
        name=name,
        literal=bool(name) and draw(st.booleans()),
        operations=tuple(draw(st.lists(st.sampled_from(known), max_size=3, unique=True))),
        addresses=tuple(draw(st.lists(st.sampled_from(RANGES), max_size=2, unique=True))),
    )


lists = st.builds(
    AccessList,
    default=st.sampled_from([access.ALLOW, access.DENY]),
    acls=st.lists(acls(), max_size=8).map(tuple),
    # Circles too: what is refused when it is written must be harmless when it is read.
    members=st.fixed_dictionaries(
        {group: st.lists(st.sampled_from([*PEOPLE, *GROUPS]), max_size=3).map(tuple) for group in GROUPS}
    ).map(lambda held: tuple(held.items())),
)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    resource = draw(resources)
    return Question(
        principal=draw(st.sampled_from([*PEOPLE, "", access.SERVICE])),
        operation=draw(st.sampled_from(access.OPERATIONS_OF[resource])),
        resource=resource,
        name="" if resource == access.TENANT else draw(st.sampled_from(NAMES[1:])),
        address=draw(st.sampled_from(ADDRESSES)),
    )


def naive_holds(rules: AccessList, group: str, principal: str) -> bool:
    """As many steps as there are groups reach everything that is held."""
    reached = {group}
    for _ in range(len(rules.members) + 1):
        for holder, held in rules.members:
            if holder in reached:
                reached.update(held)
    return principal in reached


def naive_in(text: str, address: str, unknown: bool) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return unknown
    plain = getattr(found, "ipv4_mapped", None) or found
    if text.startswith("::ffff:") and plain.version == 4:
        return IPv6Address(f"::ffff:{plain}") in ip_network(text)
    return plain in ip_network(text)


def naive_matches(rules: AccessList, acl: Acl, asked: Question) -> bool:
    who = (
        acl.principal == access.EVERYONE
        or (acl.principal == asked.principal != "")
        or (asked.principal != "" and naive_holds(rules, acl.principal, asked.principal))
    )
    named = asked.name == acl.name if acl.literal else asked.name[: len(acl.name)] == acl.name
    if acl.effect == access.ALLOW:
        implied = asked.operation == access.DESCRIBE
    else:
        implied = access.DESCRIBE in acl.operations
    done = not acl.operations or asked.operation in acl.operations or implied
    where = not acl.addresses or any(
        naive_in(text, asked.address, unknown=acl.effect == access.DENY) for text in acl.addresses
    )
    return who and acl.resource == asked.resource and named and done and where


def naive_allows(rules: AccessList, asked: Question) -> bool:
    if asked.principal == access.SERVICE:
        return True
    matching = [acl for acl in rules.acls if naive_matches(rules, acl, asked)]
    if any(acl.effect == access.DENY for acl in matching):
        return False
    return bool(matching) or rules.default == access.ALLOW


@given(lists, questions())
def test_the_evaluation_is_a_plain_reading_of_the_entries(rules: AccessList, asked: Question) -> None:
    decision = Access(rules).decide(asked)
    assert decision.allowed == naive_allows(rules, asked)
    if decision.acl is not None:
        assert naive_matches(rules, decision.acl, asked)
        assert (decision.acl.effect == access.ALLOW) == decision.allowed
        assert access.described(decision.acl) in decision.reason


@given(lists, questions(), acls(), st.integers(0, 8))
def test_one_more_entry_moves_rights_only_its_own_way(
    rules: AccessList, asked: Question, more: Acl, place: int
) -> None:
    before = Access(rules).decide(asked).allowed
    changed = replace(rules, acls=(*rules.acls[:place], more, *rules.acls[place:]))
    after = Access(changed).decide(asked).allowed
    assert after >= before if more.effect == access.ALLOW else after <= before


@given(lists, questions(), st.randoms())
def test_entries_have_no_order(rules: AccessList, asked: Question, rng: object) -> None:
    shuffled = list(rules.acls)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    again = replace(rules, acls=tuple(shuffled))
    assert Access(rules).decide(asked).allowed == Access(again).decide(asked).allowed


@given(lists, questions())
def test_a_deny_from_everywhere_wins_over_all(rules: AccessList, asked: Question) -> None:
    deny = Acl(effect=access.DENY, principal=access.EVERYONE, resource=asked.resource)
    changed = replace(rules, acls=(*rules.acls, deny))
    assert Access(changed).decide(asked).allowed == (asked.principal == access.SERVICE)


@given(questions())
def test_a_tenant_without_entries_is_as_it_was(asked: Question) -> None:
    assert Access(AccessList()).decide(asked).allowed


# -- scopes ---------------------------------------------------------------------------------------------

PLAIN = ["describe", "produce", "consume", "delete"]


def old_binding_grants(prefix: str, named: tuple[str, ...], operation: str, name: str) -> bool:
    """What brokers asked of a key's binding before there were scopes."""
    if not name.startswith(prefix):
        return False
    return not named or operation == "describe" or operation in named


@given(
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(PLAIN), max_size=4, unique=True).map(tuple),
    st.sampled_from(PLAIN),
    st.sampled_from(NAMES),
    st.sampled_from([access.TOPIC, access.GROUP]),
)
def test_the_scope_of_an_old_binding_grants_what_the_binding_did(
    prefix: str, named: tuple[str, ...], operation: str, name: str, resource: str
) -> None:
    scope = Scope(name=prefix, operations=named)
    granted = access.scope_grants(scope, operation, resource, name)
    assert granted == old_binding_grants(prefix, named, operation, name)


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    resource = draw(st.sampled_from(["", *access.RESOURCES]))
    known = access.OPERATIONS_OF[resource] if resource else tuple(PLAIN)
    name = "" if resource == access.TENANT else draw(st.sampled_from(NAMES))
    scope = Scope(
        resource=resource,
        name=name,
        literal=bool(name) and draw(st.booleans()),
        operations=tuple(draw(st.lists(st.sampled_from(known), max_size=3, unique=True))),
    )
    access.check_scope(scope)
    return scope


@given(st.lists(scopes(), max_size=3), st.lists(scopes(), max_size=3), questions())
def test_scopes_within_others_grant_nothing_that_those_do_not(
    inner: list[Scope], outer: list[Scope], asked: Question
) -> None:
    if access.within(inner, outer) and access.scopes_grant(
        inner, asked.operation, asked.resource, asked.name
    ):
        assert access.scopes_grant(outer, asked.operation, asked.resource, asked.name)


@given(st.lists(scopes(), max_size=3))
def test_scopes_are_within_themselves(some: list[Scope]) -> None:
    assert access.within(some, some)


@given(lists, questions())
def test_what_may_not_be_described_may_not_be_used(rules: AccessList, asked: Question) -> None:
    ready = Access(rules)
    if ready.decide(asked).allowed:
        assert ready.decide(replace(asked, operation=access.DESCRIBE)).allowed
