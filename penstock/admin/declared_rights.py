"""The rights that a key needs to apply a declarative file, by the access list as each change will find it. Pure.

The service asks the same at each change. Here it is asked before the first, so that no run stops on its way because the
key lost the right to go on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from penstock.admin.declaration import DeclaredAcl
from penstock.admin.declared_changes import Change, Kind, Present, Sign, ids_of
from penstock.contract.errors import Forbidden
from penstock.rules.access import (
    ACCOUNT_KIND,
    ALLOW,
    ALTER,
    CREATE,
    DELETE,
    GROUP_KIND,
    PERSON_KIND,
    SERVICE,
    TENANT,
    TOPIC,
    Access,
    AccessList,
    Acl,
    Question,
)
from penstock.rules.access_gains import (
    account_beyond_text,
    gives_more_text,
    lock_out_text,
    right_beyond,
    right_given,
)

LIST_KINDS = frozenset(
    {Kind.SERVICE_ACCOUNT, Kind.PRINCIPAL_GROUP, Kind.ACL, Kind.ACCESS, Kind.KEY, Kind.ACCOUNT_LIMITS}
)
"""Changes that take the right to alter the tenant."""
_OF_TOPICS = {Sign.ADD: CREATE, Sign.CHANGE: ALTER, Sign.REMOVE: DELETE}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingKey:
    """The key that applies the file, and whom access lists name for it."""

    id: str
    principal: str


def check_rights(changes: Sequence[Change], present: Present, key: ActingKey) -> None:
    """`present` has the whole access list, with its groups. Raises `Forbidden` for the first change that the key may
    not make when its turn comes, or after which the key could not change the list again.

    Where the key's address decides, which the service alone sees, nothing is refused here.
    """
    if key.principal == SERVICE:
        return
    rules = _Rules(present, changes)
    before = rules.as_list()
    access = Access(_anywhere(before))
    for change in changes:
        _check_one(change, access, before, key, rules)
        if not rules.apply(change):
            continue
        after = rules.as_list()
        if change.kind is not Kind.SERVICE_ACCOUNT:
            right = right_given(before, after, key.principal, rules.named())
            if right is not None:
                raise Forbidden(f"{_said(change)}: {gives_more_text(right, key.principal)}")
        before = after
        access = Access(_anywhere(after))
        if not _may(access, key, ALTER, TENANT, ""):
            raise Forbidden(f"{_said(change)}: {lock_out_text(key.id, key.principal)}")


def _check_one(
    change: Change, access: Access, rules_before: AccessList, key: ActingKey, rules: "_Rules"
) -> None:
    if change.kind is Kind.TOPIC:
        operation = _OF_TOPICS[change.sign]
        if not _may(access, key, operation, TOPIC, change.name):
            raise Forbidden(f"{_said(change)}: the access list does not allow {operation} to {key.principal}")
    elif change.kind in LIST_KINDS and not _may(access, key, ALTER, TENANT, ""):
        raise Forbidden(
            f"{_said(change)}: the access list does not allow {ALTER} of the tenant to {key.principal}"
        )
    if change.kind is Kind.KEY and change.sign is Sign.ADD:
        account = change.body.service_account
        principal = rules.ids[f"{ACCOUNT_KIND}{account}"]
        right = None if principal == key.principal else right_beyond(rules_before, principal, key.principal)
        if right is not None:
            raise Forbidden(f"{_said(change)}: {account_beyond_text(account, right, key.principal)}")


def _may(access: Access, key: ActingKey, operation: str, resource: str, name: str) -> bool:
    question = Question(principal=key.principal, operation=operation, resource=resource, name=name)
    return access.decide(question).allowed


def _said(change: Change) -> str:
    return f"{change.sign} {change.kind} {change.name}"


def _anywhere(rules: AccessList) -> AccessList:
    """The list for a caller whose address is right for each entry."""
    acls = (replace(acl, addresses=()) for acl in rules.acls if acl.effect == ALLOW or not acl.addresses)
    return replace(rules, acls=tuple(acls))


class _Rules:
    """The access list while the changes are applied one after the other."""

    def __init__(self, present: Present, changes: Sequence[Change]) -> None:
        self.ids = {**ids_of(present)}
        """Principals by the names of the file. Each new one has an id that no other has."""
        new = [change for change in changes if change.sign is Sign.ADD]
        for number, change in enumerate(new):
            if change.kind in (Kind.SERVICE_ACCOUNT, Kind.PRINCIPAL_GROUP):
                kind = ACCOUNT_KIND if change.kind is Kind.SERVICE_ACCOUNT else GROUP_KIND
                self.ids[f"{kind}{change.name}"] = f"{kind}new {number}"
        self._default = present.default
        self._members = {
            f"{GROUP_KIND}{group['id']}": tuple(group["members"]) for group in present.principal_groups
        }
        self._acls = {entry["id"]: _acl_of(entry) for entry in present.acls}

    def as_list(self) -> AccessList:
        return AccessList(
            default=self._default,
            acls=tuple(self._acls.values()),
            members=tuple(self._members.items()),
        )

    def named(self) -> list[str]:
        """The people and service accounts that the list tells apart from others."""
        named = {acl.principal for acl in self._acls.values()}
        named.update(member for members in self._members.values() for member in members)
        return sorted(principal for principal in named if principal.startswith((PERSON_KIND, ACCOUNT_KIND)))

    def apply(self, change: Change) -> bool:
        """Make the change; False: it is none of the list."""
        if change.kind is Kind.ACCESS:
            self._default = change.body
        elif change.kind is Kind.ACL and change.sign is Sign.ADD:
            self._acls[f"new {change.name}"] = self._declared(change.body)
        elif change.kind is Kind.ACL:
            del self._acls[change.id]
        elif change.kind is Kind.PRINCIPAL_GROUP and change.sign is Sign.REMOVE:
            del self._members[f"{GROUP_KIND}{change.id}"]
        elif change.kind is Kind.PRINCIPAL_GROUP:
            group = self.ids[f"{GROUP_KIND}{change.name}"]
            self._members[group] = tuple(self.ids.get(member, member) for member in change.body)
        elif change.kind is Kind.SERVICE_ACCOUNT and change.sign is Sign.REMOVE:
            self._forget(f"{ACCOUNT_KIND}{change.id}")
        else:
            return False
        return True

    def _forget(self, principal: str) -> None:
        self._acls = {name: acl for name, acl in self._acls.items() if acl.principal != principal}
        self._members = {
            group: tuple(member for member in members if member != principal)
            for group, members in self._members.items()
        }

    def _declared(self, acl: DeclaredAcl) -> Acl:
        return _acl_of({**asdict(acl), "principal": self.ids.get(acl.principal, acl.principal)})


def _acl_of(entry: Mapping[str, Any]) -> Acl:
    """An entry with the fields of REST, which are those of the file."""
    return Acl(
        effect=entry["effect"],
        principal=entry["principal"],
        resource=entry["resource"],
        name=entry["name"],
        literal=entry["resource"] != TENANT and entry["pattern"] == "literal",
        operations=tuple(entry["operations"]),
        addresses=tuple(entry["addresses"]),
    )
