"""Says that an access list hides something, and what in it does, to those who may read the list. Pure.

A thing that a principal may not describe does not exist for it. A person reads the list when signed in, and so does
a principal that may describe the tenant: both learn what hides a name from their keys. The words depend on the name
and on the list alone, so they are the same whether or not there is such a thing.
"""

from penstock.rules.access import (
    ALLOW,
    DENY,
    DESCRIBE,
    PERSON_KIND,
    TENANT,
    Access,
    Acl,
    Question,
    described,
    described_resource,
)

_NAMED_MAX = 5


def may_read(access: Access, principal: str, address: str, *, scoped: bool) -> bool:
    """The bearer of a key may know what the list says. A key with scopes is often for a third party."""
    if scoped:
        return False
    asked = Question(principal=principal, operation=DESCRIBE, resource=TENANT, name="", address=address)
    return principal.startswith(PERSON_KIND) or access.decide(asked).allowed


def hint(access: Access, principal: str, resource: str, name: str, address: str, *, scoped: bool) -> str:
    """A refusal that says that something does not exist adds this. Empty: the list does not hide the name, or the
    bearer of the key may not know.
    """
    asked = Question(principal=principal, operation=DESCRIBE, resource=resource, name=name, address=address)
    decision = access.decide(asked)
    if decision.allowed or not may_read(access, principal, address, scoped=scoped):
        return ""
    return f", or the access list hides it from {principal}: {decision.reason}"


def hidden(access: Access, principal: str, resource: str) -> str:
    """The things of this kind (topics, groups) that the list hides from the principal, and by what. Empty: none."""
    identities = set(access.identities(principal))
    entries = [acl for acl in access.rules.acls if acl.principal in identities and acl.resource == resource]
    denying = [acl for acl in entries if acl.effect == DENY and _hides(acl)]
    texts = [described(acl) for acl in denying[:_NAMED_MAX]]
    if len(denying) > _NAMED_MAX:
        texts.append(f"{len(denying) - _NAMED_MAX} more entries deny some")
    if access.rules.default == DENY:
        allowing = [acl for acl in entries if acl.effect == ALLOW]
        shown = [described_resource(resource, acl.name, acl.literal) for acl in allowing[:_NAMED_MAX]]
        more = (
            f" and those of {len(allowing) - _NAMED_MAX} more entries" if len(allowing) > _NAMED_MAX else ""
        )
        sees = ", ".join(shown) or f"no {resource}"
        texts.insert(0, f"it denies what no entry allows, and entries allow {principal} {sees}{more}")
    return "; ".join(texts)


def _hides(acl: Acl) -> bool:
    return not acl.operations or DESCRIBE in acl.operations
