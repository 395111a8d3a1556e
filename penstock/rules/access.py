"""Who may do what to which resource: one evaluation of access lists and scopes, used by brokers, control plane and CLI.

    right of a key = one of its scopes grants it  AND  its principal may do it

    principal may  = no `deny` entry matches  AND  (an `allow` entry matches  OR  the list's default is `allow`)

An entry matches when its principal is the asking one, a group that holds it (directly or through other groups) or
everyone; its resource and operation are those asked for; and the caller's address is in one of its ranges. What a
principal may not describe does not exist for it: who is denied `describe` is denied everything. Entries have no order.
More `allow` entries never take a right away, more `deny` entries never give one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from ipaddress import IPv6Address, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import Final

from penstock.contract import limits
from penstock.contract.errors import InvalidRequest, LimitExceeded
from penstock.rules.names import AUDIT_TOPIC, check_printable_name, is_of_topics

ALLOW: Final = "allow"
DENY: Final = "deny"

TOPIC: Final = "topic"
GROUP: Final = "group"
TRANSACTIONAL_ID: Final = "transactional_id"
TENANT: Final = "tenant"
"""The tenant itself: its keys, service accounts, groups of principals and access list. It has no name."""

DESCRIBE: Final = "describe"
PRODUCE: Final = "produce"
CONSUME: Final = "consume"
DELETE: Final = "delete"
CREATE: Final = "create"
ALTER: Final = "alter"
VERIFY: Final = "verify"
"""Of topics, in scopes of keys alone: read what proves an invoice, which is stamps, seals and headers of batches, and
no record. Who may consume may, too; of the principal it takes that it may describe the topic.
"""

OPERATIONS_OF = MappingProxyType(
    {
        TOPIC: (DESCRIBE, PRODUCE, CONSUME, DELETE, CREATE, ALTER),
        GROUP: (DESCRIBE, CONSUME),
        TRANSACTIONAL_ID: (DESCRIBE, PRODUCE),
        TENANT: (DESCRIBE, ALTER),
    }
)
"""What can be done to each kind of resource. `consume` of a group: join it, commit and reset its offsets, delete it."""
RESOURCES = tuple(OPERATIONS_OF)

EVERYONE: Final = "everyone"
SERVICE: Final = "service"
"""Keys of the service itself. No entry binds them: the service asks for the rights of the person whom it serves."""
PERSON_KIND: Final = "person:"
ACCOUNT_KIND: Final = "service_account:"
GROUP_KIND: Final = "group:"
PRINCIPAL_LENGTH_MAX: Final = 64
_RANGES_REMEMBERED: Final = 4_096
"""Ranges of addresses that stay parsed: few are in use, each in many entries."""
_IPV4: Final = 0xFFFF_FFFF
"""Within ::ffff:0:0/96: the IPv4 addresses of IPv6 (RFC 4291, 2.5.5.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A part of what a key may do: `operations` on the resources whose names begin with `name`, or are it."""

    resource: str = ""
    """One of `RESOURCES`; empty = topics and groups."""
    name: str = ""
    literal: bool = False
    """The one resource that is called `name`; else every one whose name begins with it."""
    operations: tuple[str, ...] = ()
    """None: describe, produce, consume and delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """One entry of an access list. Raises `InvalidRequest` for one that could never match or that means nothing."""

    effect: str
    """`allow` or `deny`."""
    principal: str
    """`person:<id>`, `service_account:<id>`, `group:<id>` or `everyone`."""
    resource: str
    """One of `RESOURCES`."""
    name: str = ""
    literal: bool = False
    """As in `Scope`. A tenant has no name."""
    operations: tuple[str, ...] = ()
    """None: all that can be done to the resource. An allowed operation allows `describe` too; with a denied `describe`
    everything is denied."""
    addresses: tuple[str, ...] = ()
    """Ranges as 10.0.0.0/8 or 2001:db8::/32; none: from anywhere. An address that is not known is in every range of a
    `deny` entry and in none of an `allow` entry.
    """

    def __post_init__(self) -> None:
        if self.effect not in (ALLOW, DENY):
            raise InvalidRequest(f"effect: {self.effect[:32]!r} is neither allow nor deny")
        check_principal(self.principal, groups=True)
        check_resource(self.resource, self.name, self.literal, self.operations)
        if len(self.addresses) > limits.ACL_ADDRESSES_MAX:
            raise LimitExceeded(
                f"addresses: {len(self.addresses)} ranges of one entry, at most {limits.ACL_ADDRESSES_MAX} allowed;"
                " name larger ranges, or several entries",
                limit="ACL_ADDRESSES_MAX",
            )
        for text in self.addresses:
            parsed_range(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessList:
    """All that a tenant's access list says. The default value is the one of a tenant that has set nothing."""

    default: str = ALLOW
    """What holds for what no entry speaks of."""
    acls: tuple[Acl, ...] = ()
    members: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Groups of principals, each with its direct members: people, service accounts and other groups."""

    def __post_init__(self) -> None:
        if self.default not in (ALLOW, DENY):
            raise InvalidRequest(f"default: {self.default[:32]!r} is neither allow nor deny")
        if len(self.acls) > limits.ACLS_PER_TENANT_MAX:
            raise LimitExceeded(
                f"{len(self.acls)} entries of an access list, at most {limits.ACLS_PER_TENANT_MAX} allowed; name"
                " prefixes and groups of principals instead of single ones",
                limit="ACLS_PER_TENANT_MAX",
            )
        ranges = sum(len(acl.addresses) for acl in self.acls)
        if ranges > limits.ACL_ADDRESSES_PER_TENANT_MAX:
            raise LimitExceeded(
                f"{ranges} ranges of addresses in all entries, at most"
                f" {limits.ACL_ADDRESSES_PER_TENANT_MAX} allowed; name larger ranges",
                limit="ACL_ADDRESSES_PER_TENANT_MAX",
            )
        if len(self.members) > limits.PRINCIPAL_GROUPS_PER_TENANT_MAX:
            raise LimitExceeded(
                f"{len(self.members)} groups of principals, at most"
                f" {limits.PRINCIPAL_GROUPS_PER_TENANT_MAX} allowed; delete some that are not used",
                limit="PRINCIPAL_GROUPS_PER_TENANT_MAX",
            )
        count = sum(len(members) for _, members in self.members)
        if count > limits.PRINCIPAL_GROUP_MEMBERS_PER_TENANT_MAX:
            raise LimitExceeded(
                f"{count} members of all groups of principals, at most"
                f" {limits.PRINCIPAL_GROUP_MEMBERS_PER_TENANT_MAX} allowed; take some out, or name a group within"
                " another",
                limit="PRINCIPAL_GROUP_MEMBERS_PER_TENANT_MAX",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """May this be done? `name` is empty where `resource` is the tenant."""

    principal: str
    """Empty: it is not known whose key asks; entries for everyone and the default are what holds."""
    operation: str
    resource: str
    name: str
    address: str = ""
    """Where the caller is, without a port; empty or no IP address: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer, and why."""

    allowed: bool
    acl: Acl | None
    """The entry that decided; None: the default, or the service itself."""
    reason: str
    """For people: understood alone."""


class Access:
    """The access list of one tenant, made ready to be asked often. Nothing changes it."""

    def __init__(self, rules: AccessList) -> None:
        self.rules = rules
        self._holders: dict[str, list[str]] = {}
        """Groups that name this principal or group directly."""
        for group, members in rules.members:
            for member in members:
                self._holders.setdefault(member, []).append(group)
        self._by_principal: dict[str, list[_Entry]] = {}
        for acl in rules.acls:
            self._by_principal.setdefault(acl.principal, []).append(_Entry(acl))

    def identities(self, principal: str) -> list[str]:
        """Whom entries may name to mean this principal: itself, every group that holds it, everyone."""
        found: dict[str, None] = {}
        waiting = [principal] if principal else []
        while waiting:
            one = waiting.pop()
            if one not in found:  # a circle ends here
                found[one] = None
                waiting.extend(self._holders.get(one, ()))
        found[EVERYONE] = None
        return list(found)

    def decide(self, question: Question) -> Decision:
        """The answer for the principal alone, whatever its keys are scoped to."""
        if question.principal == SERVICE:
            return Decision(allowed=True, acl=None, reason="the service itself is bound by no entry")
        allowing: _Entry | None = None
        address = address_number(question.address)
        for identity in self.identities(question.principal):
            for entry in self._by_principal.get(identity, ()):
                if not entry.matches(question, address):
                    continue
                if entry.denies:
                    return Decision(
                        allowed=False, acl=entry.acl, reason=f"an entry denies it: {described(entry.acl)}"
                    )
                allowing = allowing or entry
        if allowing is not None:
            return Decision(
                allowed=True, acl=allowing.acl, reason=f"an entry allows it: {described(allowing.acl)}"
            )
        if self.rules.default == ALLOW:
            return Decision(allowed=True, acl=None, reason="the access list allows what no entry denies")
        return Decision(
            allowed=False,
            acl=None,
            reason=f"no entry allows {question.operation} to {question.principal or 'a key without a principal'},"
            " and the access list denies what no entry allows",
        )


class _Entry:
    """One entry with its ranges as numbers."""

    def __init__(self, acl: Acl) -> None:
        self.acl = acl
        self.denies = acl.effect == DENY
        self._ranges = [parsed_range(text) for text in acl.addresses]

    def matches(self, question: Question, address: "AddressNumber | None") -> bool:
        acl = self.acl
        if acl.resource != question.resource:
            return False
        if not _is_named(acl.name, acl.literal, question.name):
            return False
        operations = acl.operations
        # Who may do something to it may describe it. Who may not do one thing to it may describe it, too; but for who
        # may not describe it, it does not exist.
        implied = DESCRIBE in operations if self.denies else question.operation == DESCRIBE
        if operations and question.operation not in operations and not implied:
            return False
        if not self._ranges:
            return True
        if address is None:
            return self.denies
        return any(one.holds(address) for one in self._ranges)


# -- scopes ---------------------------------------------------------------------------------------------


def scope_grants(scope: Scope, operation: str, resource: str, name: str) -> bool:
    """Does the scope grant that on the resource of this name? A key that may do something to it may describe it."""
    if scope.resource != resource and (scope.resource or resource not in (TOPIC, GROUP)):
        return False
    if not _is_named(scope.name, scope.literal, name):
        return False
    operations = scope.operations or (DESCRIBE, PRODUCE, CONSUME, DELETE)
    if operation == VERIFY:
        return resource == TOPIC and (VERIFY in operations or CONSUME in operations)
    return operation in operations or operation == DESCRIBE


def scopes_grant(scopes: Sequence[Scope], operation: str, resource: str, name: str) -> bool:
    """Does one of them? A key without scopes may do everything that its principal may, but not see the audit log."""
    if is_audit_topic(resource, name):
        return any(
            names_audit_topic(scope) and scope_grants(scope, operation, TOPIC, name) for scope in scopes
        )
    return not scopes or any(scope_grants(scope, operation, resource, name) for scope in scopes)


def is_audit_topic(resource: str, name: str) -> bool:
    """Whether it is the topic with the tenant's audit log, which no scope grants that does not name it."""
    return name == AUDIT_TOPIC and resource == TOPIC


def names_audit_topic(scope: Scope) -> bool:
    """Whether the scope is for the topic with the audit log, and for it alone. Those who may read the log make keys
    with such a scope.
    """
    return scope.resource == TOPIC and scope.literal and scope.name == AUDIT_TOPIC


def check_reads_audit_topic(scope: Scope) -> None:
    """Raises `InvalidRequest` unless a scope that names the topic with the audit log is for reading alone."""
    if not scope.operations or not set(scope.operations) <= {DESCRIBE, CONSUME}:
        raise InvalidRequest(
            f"operations: the service alone writes {AUDIT_TOPIC}; a scope for it names describe, consume or both"
        )


def within(scopes: Sequence[Scope], of: Sequence[Scope]) -> bool:
    """Does every one of `scopes` grant only what a single one of `of` grants? Those without any grant everything."""
    if not of:
        return True
    return bool(scopes) and all(any(_is_within(one, other) for other in of) for one in scopes)


def _is_within(inner: Scope, outer: Scope) -> bool:
    if inner.resource != outer.resource and (outer.resource or inner.resource not in (TOPIC, GROUP)):
        return False
    if outer.literal:
        if not inner.literal or inner.name != outer.name:
            return False
    elif not inner.name.startswith(outer.name):
        return False
    plain = (DESCRIBE, PRODUCE, CONSUME, DELETE)
    given = outer.operations or plain
    implied = {DESCRIBE, VERIFY} if CONSUME in given else {DESCRIBE}
    return all(operation in given or operation in implied for operation in inner.operations or plain)


def only_verifies(scopes: Sequence[Scope]) -> bool:
    """Whether a key with these scopes reads what proves invoices, and nothing else."""
    return bool(scopes) and all(scope.operations == (VERIFY,) for scope in scopes)


def asked_of_principal(operation: str) -> str:
    """The operation for which the access list is asked where a key's scopes were asked for this one."""
    return DESCRIBE if operation == VERIFY else operation


def check_scope(scope: Scope) -> None:
    """Raises `InvalidRequest` for a scope that means nothing."""
    if scope.resource:
        operations = [one for one in scope.operations if (scope.resource, one) != (TOPIC, VERIFY)]
        check_resource(scope.resource, scope.name, scope.literal, operations)
        return
    for resource in (TOPIC, GROUP):
        _check_name(resource, scope.name, scope.literal)
    for operation in scope.operations:
        if operation not in (DESCRIBE, PRODUCE, CONSUME, DELETE):
            raise InvalidRequest(
                f"operations: {operation[:32]!r} is not one of describe, produce, consume, delete;"
                " others need a scope that names its kind of resource"
            )


# -- what is asked about --------------------------------------------------------------------------------


def check_resource(resource: str, name: str, literal: bool, operations: Iterable[str]) -> None:
    """Raises `InvalidRequest` unless there are resources of this kind that can be named so, and these operations."""
    if resource not in OPERATIONS_OF:
        raise InvalidRequest(f"resource: {resource[:32]!r} is not one of {', '.join(RESOURCES)}")
    if resource == TENANT and (name or literal):
        raise InvalidRequest("name: a tenant has no name here; leave name and pattern out")
    _check_name(resource, name, literal)
    known = OPERATIONS_OF[resource]
    for operation in operations:
        if operation not in known:
            raise InvalidRequest(
                f"operations: {operation[:32]!r} of a {resource} is not one of {', '.join(known)}"
            )


def _check_name(resource: str, name: str, literal: bool) -> None:
    if literal and not name:
        raise InvalidRequest(f"name: required of a literal {resource}")
    if name:
        check_printable_name("name", name, limits.TOPIC_NAME_LENGTH_MAX)


def check_can_exist(acl: Acl) -> None:
    """Raises `InvalidRequest` for an entry about a topic that no tenant can have: a `deny` of it would be of no effect;
    and for an address with a zone (`%eth0`), which would hold for more than it says, because addresses are compared
    without one. Entries that are stored are read nevertheless.
    """
    zoned = next((text for text in acl.addresses if "%" in text), None)
    if zoned is not None:
        raise InvalidRequest(f"addresses: {zoned[:64]!r} has a zone; leave out what follows the %")
    if acl.resource == TOPIC and acl.name and not is_of_topics(acl.name):
        hint = (
            "; for all that begin so leave the * out, with the pattern prefix"
            if acl.name.endswith("*")
            else ""
        )
        raise InvalidRequest(f"name: no topic can be called {acl.name[:64]!r}{hint}")


def check_principal(principal: str, *, groups: bool) -> None:
    """Raises `InvalidRequest` unless it has a principal's form. `groups`: a group and `everyone` will do, too."""
    kinds = (PERSON_KIND, ACCOUNT_KIND, GROUP_KIND) if groups else (PERSON_KIND, ACCOUNT_KIND)
    if groups and principal == EVERYONE:
        return
    named = any(principal.startswith(kind) and len(principal) > len(kind) for kind in kinds)
    if not named or len(principal) > PRINCIPAL_LENGTH_MAX or not principal.isprintable():
        wanted = ", ".join(f"{kind}<id>" for kind in kinds) + (" or everyone" if groups else "")
        raise InvalidRequest(f"principal: {principal[:PRINCIPAL_LENGTH_MAX]!r} is not {wanted}")


def circle_among(members: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Groups that hold one another in a circle, from one back to itself; empty if none do."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for group, direct in members:
        sorter.add(group, *(one for one in direct if one.startswith(GROUP_KIND)))
    try:
        sorter.prepare()
    except CycleError as error:
        return [str(group) for group in error.args[1]]
    return []


def described(acl: Acl) -> str:
    """The entry in one line, as people read it."""
    operations = ", ".join(acl.operations) or "everything"
    return (
        f"{acl.effect} {acl.principal} {operations} on {described_resource(acl.resource, acl.name, acl.literal)}"
        + (f" from {', '.join(acl.addresses)}" if acl.addresses else "")
    )


def described_resource(resource: str, name: str, literal: bool) -> str:
    """For instance `topic orders`, `topics orders*`, `the tenant`."""
    if resource == TENANT:
        return "the tenant"
    kind = (resource or "topic or group").replace("_", " ")
    return f"{kind} {name}" if literal else f"{kind} {name}*"


def _is_named(name: str, literal: bool, asked: str) -> bool:
    return asked == name if literal else asked.startswith(name)


# -- addresses ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddressNumber:
    """An IP address. One of IPv4 that came by IPv6 is of IPv4."""

    version: int
    number: int


@dataclass(frozen=True, slots=True)
class AddressRange:
    """The addresses that begin with the same bits."""

    version: int
    first: int
    mask: int

    def holds(self, address: AddressNumber) -> bool:
        return address.version == self.version and address.number & self.mask == self.first


def address_number(text: str) -> AddressNumber | None:
    """The address without a port; None of what is none."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return AddressNumber(4, int(address.ipv4_mapped))
    return AddressNumber(address.version, int(address))


@lru_cache(maxsize=_RANGES_REMEMBERED)
def parsed_range(text: str) -> AddressRange:
    """A range as 10.0.0.0/8, or one address. Raises `InvalidRequest`, also when bits behind the prefix are set."""
    try:
        network = ip_network(text)
    except ValueError as error:
        raise InvalidRequest(f"addresses: {text[:64]!r} is no range of IP addresses: {error}") from None
    first, mask = int(network.network_address), int(network.netmask)
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None:
        return AddressRange(4, first & _IPV4, mask & _IPV4)  # as `address_number` has its addresses
    return AddressRange(network.version, first, mask)


# -- presets --------------------------------------------------------------------------------------------

PRESETS = MappingProxyType(
    {
        "producer": ((TOPIC, (DESCRIBE, PRODUCE)), (TRANSACTIONAL_ID, (DESCRIBE, PRODUCE))),
        "consumer": ((TOPIC, (DESCRIBE, CONSUME)), (GROUP, (DESCRIBE, CONSUME))),
        "owner": ((TOPIC, ()), (GROUP, ()), (TRANSACTIONAL_ID, ())),
        "read-only": ((TOPIC, (DESCRIBE, CONSUME)), (GROUP, (DESCRIBE,))),
    }
)
"""What a principal is to the resources of one name or prefix, as operations by kind of resource."""


def preset(name: str, *, principal: str, resource_name: str, literal: bool, group_prefix: str) -> list[Acl]:
    """The entries of a preset. `group_prefix` names the groups and transactional ids (a prefix).

    Raises `InvalidRequest`.
    """
    if name not in PRESETS:
        raise InvalidRequest(f"preset: {name[:32]!r} is not one of {', '.join(PRESETS)}")
    return [
        Acl(
            effect=ALLOW,
            principal=principal,
            resource=resource,
            name=resource_name if resource == TOPIC else group_prefix,
            literal=literal and resource == TOPIC,
            operations=operations,
        )
        for resource, operations in PRESETS[name]
    ]
