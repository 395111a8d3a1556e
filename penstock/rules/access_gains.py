"""No key gives what it does not have: the rights that a change of an access list, or a new key, would hand out. Pure.

A key that may change the list could else free its own principal of an entry that denies, or make itself a key of a
principal that nothing denies. So who changes the list with a key gives no principal a right that the key's own
principal does not have; and makes keys for those principals alone who may no more than its own.

Rights are compared at points that stand for all others. No entry tells two names apart of which each continues the same
entry's name and no longer one; no range of addresses ends between two neighbours of the bounds of all ranges. So each
name of an entry, each with a continuation, and each bound of a range is looked at, and nothing between them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from penstock.contract.errors import Forbidden
from penstock.rules.access import (
    ALLOW,
    DENY,
    EVERYONE,
    OPERATIONS_OF,
    TENANT,
    Access,
    AccessList,
    Acl,
    Question,
    described_resource,
    parsed_range,
)

COMPARED_MAX: Final = 1_000_000
"""Entries that one comparison looks at: about a second. A list that needs more is changed by people."""
_CONTINUED: Final = "\0"
"""In no name, since names are printable: `name + _CONTINUED` continues the entries that `name` continues, and none that
is longer.
"""
_BITS = {4: 32, 6: 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What one list says of one principal."""

    access: Access
    principal: str
    entries: tuple[Acl, ...]
    """That name the principal, a group that holds it, or everyone."""

    @property
    def default(self) -> str:
        return self.access.rules.default

    def may(self, operation: str, resource: str, name: str, address: str) -> bool:
        asked = Question(
            principal=self.principal, operation=operation, resource=resource, name=name, address=address
        )
        return self.access.decide(asked).allowed

    @property
    def unlimited(self) -> bool:
        """Nothing is denied to it."""
        return self.default == ALLOW and all(acl.effect == ALLOW for acl in self.entries)

    def within(self, other: "_View") -> bool:
        """Whether it can be seen without a look at names that it allows nothing that the other does not."""
        if self.default == ALLOW and other.default == DENY:
            return False
        own, others = set(self.entries), set(other.entries)
        return all(acl in others for acl in own if acl.effect == ALLOW) and all(
            acl in own for acl in others if acl.effect == DENY
        )


def right_given(
    before: AccessList, after: AccessList, giver: str, principals: Iterable[str]
) -> Question | None:
    """A right that a change from `before` to `after` gives to one of the principals, or to any that is made later, and
    that neither that principal nor the giver had before. None: there is none.

    Raises `Forbidden` for lists that take too long to compare.
    """
    old, new = Access(before), Access(after)
    holder = _view(old, giver)
    if holder.unlimited:
        return None
    work = _Work()
    looked_at: set[tuple[tuple[Acl, ...], tuple[Acl, ...]]] = set()
    for principal in (giver, "", *principals):
        had, has = _view(old, principal), _view(new, principal)
        kind = (had.entries, has.entries)
        if kind in looked_at:
            continue
        looked_at.add(kind)
        gained = _first_beyond(has, (had, holder), work)
        if gained is not None:
            return gained
    return None


def right_beyond(rules: AccessList, principal: str, giver: str) -> Question | None:
    """A right that the principal has and the giver has not. None: there is none. Raises as `right_given`."""
    access = Access(rules)
    holder = _view(access, giver)
    return None if holder.unlimited else _first_beyond(_view(access, principal), (holder,), _Work())


def right_by_new_name(
    rules: AccessList, principal: str, resource: str, old: str, new: str
) -> Question | None:
    """A right that the principal would have on what is called `old` once it is called `new`. None: there is none."""
    view = _view(Access(rules), principal)
    entries = [acl for acl in view.entries if acl.resource == resource]
    for address in _addresses(entries):
        for operation in OPERATIONS_OF[resource]:
            if view.may(operation, resource, new, address) and not view.may(
                operation, resource, old, address
            ):
                return Question(
                    principal=principal, operation=operation, resource=resource, name=old, address=address
                )
    return None


def described_right(right: Question) -> str:
    """For instance `consume of topics secrets*`."""
    literal = not right.name.endswith(_CONTINUED)
    name = described_resource(right.resource, right.name.removesuffix(_CONTINUED), literal)
    return f"{right.operation} of {name}" + (f" from {right.address}" if right.address else "")


def gives_more_text(right: Question, giver: str) -> str:
    """Why a change is refused that would give the right."""
    return (
        f"the change would allow {described_right(right)} to {right.principal or EVERYONE}, which {giver} itself may"
        " not do: a key gives no right that it does not have; sign in as an owner or admin"
    )


def account_beyond_text(account: str, right: Question, giver: str) -> str:
    """Why no key of the service account is made, which has the right and the giver has not."""
    return (
        f"service account {account} may do what {giver} may not ({described_right(right)}): a key makes keys for"
        " accounts that may no more than it; sign in as an owner or admin"
    )


def lock_out_text(key: str, owner: str) -> str:
    """Why a change is refused with which the key would lose the right to change the list."""
    return (
        f"the list would lock the key {key} out: it could not change the list again; allow {owner} to alter the tenant"
        " first, or sign in as an owner"
    )


def is_unlimited(rules: AccessList, principal: str) -> bool:
    """Whether nothing is denied to the principal, so that it may give every right."""
    return _view(Access(rules), principal).unlimited


class _Work:
    """Counts what a comparison looks at."""

    def __init__(self) -> None:
        self._entries = 0

    def take(self, entries: int) -> None:
        self._entries += entries
        if self._entries > COMPARED_MAX:
            raise Forbidden(
                "the access list is too long to compare what the key may do with what it would give; sign in as an"
                " owner or admin to change it"
            )


def _view(access: Access, principal: str) -> _View:
    identities = set(access.identities(principal))
    entries = tuple(acl for acl in access.rules.acls if acl.principal in identities)
    return _View(access=access, principal=principal, entries=entries)


def _first_beyond(has: _View, others: Sequence[_View], work: _Work) -> Question | None:
    """A right of `has` that none of the others has."""
    if any(has.within(other) for other in others):
        return None
    entries = [*has.entries, *(acl for other in others for acl in other.entries)]
    for resource, operations in OPERATIONS_OF.items():
        of_resource = list(dict.fromkeys(acl for acl in entries if acl.resource == resource))
        for name in _names(resource, of_resource):
            matching = [
                acl for acl in of_resource if (name == acl.name if acl.literal else name.startswith(acl.name))
            ]
            work.take(len(of_resource))
            for address in _addresses(matching):
                # Describing last: who may not do what a person would name mostly may not describe either.
                for operation in reversed(operations):
                    work.take(len(entries))
                    if has.may(operation, resource, name, address) and not any(
                        other.may(operation, resource, name, address) for other in others
                    ):
                        return Question(
                            principal=has.principal,
                            operation=operation,
                            resource=resource,
                            name=name,
                            address=address,
                        )
    return None


def _names(resource: str, entries: Sequence[Acl]) -> list[str]:
    """Those that stand for all."""
    if resource == TENANT:
        return [""]
    named = dict.fromkeys(acl.name for acl in entries)
    return list(dict.fromkeys([_CONTINUED, *(text for name in named for text in (name, name + _CONTINUED))]))


def _addresses(entries: Iterable[Acl]) -> list[str]:
    """Those that stand for all: one that is not known, and each where a range begins or one has just ended."""
    texts = {text for acl in entries for text in acl.addresses}
    if not texts:
        return [""]
    bounds = {(version, 0) for version in _BITS}
    for text in sorted(texts):
        span = parsed_range(text)
        bounds.add((span.version, span.first))
        end = (span.first | ~span.mask & ((1 << _BITS[span.version]) - 1)) + 1
        if end < 1 << _BITS[span.version]:
            bounds.add((span.version, end))
    return [
        "",
        *(
            str(IPv4Address(number) if version == 4 else IPv6Address(number))
            for version, number in sorted(bounds)
        ),
    ]
