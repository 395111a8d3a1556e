"""What a report says: who is in the tenant, what they may do, what changed and what was refused. Reads, writes nothing.

Every list is bounded; what is beyond a bound is counted in `left_out`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from allauth.mfa.models import Authenticator
from django.db.models import Max, QuerySet, Sum

from control_plane.access import queries as access
from control_plane.access.models import AclEntry
from control_plane.access_reports.comparing import compared
from control_plane.access_reports.months import Month, month_at
from control_plane.access_reports.presets import presets
from control_plane.audit import queries as audit
from control_plane.audit.models import AuditEntry
from control_plane.topics import queries as topics
from penstock.contract.audit_entries import DONE, REFUSED
from penstock.rules import access as rules
from penstock.rules.access import Scope
from tenants import queries as tenants
from tenants.factors import queries as factors
from tenants.models import ApiKey, Invitation, Membership, OrganisationMember, Person, Session, Tenant
from tenants.roles import OrganisationRole, Role, role_of

VERSION = 1
ROWS_MAX = 10_000
"""Of each list of people, keys and so on."""
SCOPES_MAX = 50_000
"""Of all keys."""
ACTORS_MAX = 1_000
"""Pairs of actor and action, those with the largest numbers first."""
UNUSED_AFTER = timedelta(days=90)
ACTIVITY_KINDS = ("access", "acl", "key", "person", "principal_group", "service_account")
"""Objects that decide who may do what."""
_READS = tuple(f"{kind}.read" for kind in ACTIVITY_KINDS)
_KINDS = (
    (rules.PERSON_KIND, "people"),
    (rules.ACCOUNT_KIND, "service_accounts"),
    (rules.GROUP_KIND, "groups"),
)
"""Kinds of principals, and the list of each."""


def report(
    tenant: Tenant, month: Month | None, now: datetime, earlier: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What there is now, what was refused and changed in `month` (None: in this one so far), and what is otherwise than
    in the `earlier` report. It is plain JSON.
    """
    since = month_at(now).begins_at if month is None else month.begins_at
    until = now if month is None else month.ends_at
    left_out: dict[str, int] = {}
    keys = _taken("keys", _keys(tenant, now), left_out)
    found: dict[str, Any] = {
        "version": VERSION,
        "tenant": {"id": tenant.public_id, "name": tenant.name},
        "month": None if month is None else str(month),
        "from": _at(since),
        "until": _at(until),
        "made_at": _at(now),
        "compared_with": None if earlier is None else earlier["month"],
        "default": _default(tenant),
        "people": _people(tenant, _taken("people", tenants.people(tenant).order_by("pk"), left_out)),
        "service_accounts": [
            {"id": one.public_id, "name": one.name, "created_at": _at(one.created_at)}
            for one in _taken("service_accounts", tenants.service_accounts(tenant).order_by("pk"), left_out)
        ],
        "keys": _shown_keys(keys, left_out),
        "groups": [
            {
                "id": one.public_id,
                "name": one.name,
                "members": list(one.members),
                "created_at": _at(one.created_at),
            }
            for one in _taken("groups", access.groups(tenant).order_by("pk"), left_out)
        ],
        "entries": [
            _shown_entry(one) for one in _taken("entries", access.acls(tenant).order_by("pk"), left_out)
        ],
        "invitations": [
            {
                "id": one.public_id,
                "email": one.email,
                "role": one.role,
                "created_at": _at(one.created_at),
                "expires_at": _at(one.expires_at),
            }
            for one in _taken("invitations", _invitations(tenant, now), left_out)
        ],
    }
    found["left_out"] = left_out
    found["presets"] = presets(found["entries"])
    found["changes"] = [] if earlier is None else compared(earlier, found)
    found["unused"] = _unused(found, now, _topic_names(tenant))
    names = {one["id"]: one.get("email") or one["name"] for one in (*found["people"], *found["keys"])}
    within = audit.entries(tenant.public_id).filter(at__gte=since, at__lt=until)
    found["refusals"] = counted("refusals", within.filter(outcome=REFUSED), names, left_out)
    found["activity"] = counted("activity", changing(within), names, left_out)
    return found


# -- who there is ---------------------------------------------------------------------------------------


def _taken(name: str, rows: QuerySet[Any], left_out: dict[str, int]) -> list[Any]:
    """At most `ROWS_MAX` of them; how many more there are is noted."""
    taken = list(rows[: ROWS_MAX + 1])
    if len(taken) > ROWS_MAX:
        left_out[name] = rows.count() - ROWS_MAX
    return taken[:ROWS_MAX]


def _default(tenant: Tenant) -> str:
    known = access.access_of(tenant)
    return rules.ALLOW if known is None else known.default


def _invitations(tenant: Tenant, now: datetime) -> QuerySet[Invitation]:
    return Invitation.objects.filter(tenant=tenant, ended_at=None, expires_at__gt=now).order_by("pk")


def _keys(tenant: Tenant, now: datetime) -> QuerySet[ApiKey]:
    valid = tenants.keys(tenant).filter(revoked_at=None).exclude(expires_at__lte=now)
    return valid.select_related("maker", "service_account").prefetch_related("bindings").order_by("pk")


def _people(tenant: Tenant, rows: list[Person]) -> list[dict[str, Any]]:
    people = [row.pk for row in rows]
    own = {one.person_id: one for one in Membership.objects.filter(tenant=tenant, person__in=people)}
    shared = {
        one.person_id: one
        for one in OrganisationMember.objects.filter(organisation__tenants=tenant, person__in=people)
    }
    kinds: dict[int, list[str]] = {}
    for person, kind in (
        Authenticator.objects.filter(user__in=people, type__in=factors.PROOFS)
        .order_by("pk")
        .values_list("user", "type")
    ):
        kinds.setdefault(person, []).append(str(kind))
    sessions = dict(
        Session.objects.filter(person__in=people).values_list("person").annotate(Max("created_at"))
    )
    shown = []
    for row in rows:
        known = [at for at in (row.last_login, sessions.get(row.pk)) if at is not None]
        direct, within = own.get(row.pk), shared.get(row.pk)
        role = role_of(
            None if direct is None else Role(direct.role),
            None if within is None else OrganisationRole(within.role),
        )
        since = min(one.created_at for one in (direct, within) if one is not None)
        shown.append(
            {
                "id": row.public_id,
                "email": row.email,
                "role": None if role is None else role.value,
                "active": row.is_active,
                "second_factors": kinds.get(row.pk, []),
                "member_since": _at(since),
                "last_sign_in_at": _at(max(known, default=None)),
            }
        )
    return shown


def _shown_keys(keys: list[ApiKey], left_out: dict[str, int]) -> list[dict[str, Any]]:
    shown, left = [], SCOPES_MAX
    for key in keys:
        scopes = access.scopes_of(key)
        if len(scopes) > left:
            left_out["scopes"] = left_out.get("scopes", 0) + len(scopes) - left
        shown.append(
            {
                "id": key.public_id,
                "name": key.name,
                "principal": access.owner_of(key),
                "scoped": bool(scopes),
                "scopes": [_shown_scope(one) for one in islice(scopes, left)],
                "created_at": _at(key.created_at),
                "expires_at": _at(key.expires_at),
                "last_used_at": _at(key.last_used_at),
            }
        )
        left -= min(left, len(scopes))
    return shown


def _shown_scope(scope: Scope) -> dict[str, Any]:
    return {
        "resource": scope.resource,
        "name": scope.name,
        "pattern": "literal" if scope.literal else "prefix",
        "operations": list(scope.operations),
        "on": rules.described_resource(scope.resource, scope.name, scope.literal),
    }


def _shown_entry(row: AclEntry) -> dict[str, Any]:
    return {
        "id": row.public_id,
        "effect": row.effect,
        "principal": row.principal,
        "resource": row.resource,
        "name": row.name,
        "pattern": "literal" if row.literal else "prefix",
        "operations": list(row.operations),
        "addresses": list(row.addresses),
        "on": rules.described_resource(row.resource, row.name, row.literal),
        "text": rules.described(row.acl),
        "created_at": _at(row.created_at),
    }


# -- what looks unused ----------------------------------------------------------------------------------


def _topic_names(tenant: Tenant) -> Callable[[str, bool], bool]:
    """Whether a topic of that name, or one whose name begins so, is there or in the recycle bin."""
    read: list[list[str]] = []

    def is_there(name: str, literal: bool) -> bool:
        if not read:
            names: list[str] = []
            for rows in (topics.topics(tenant), topics.binned_topics(tenant)):
                names.extend(rows.values_list("name", flat=True))
            read.append(sorted(names))
        names = read[0]
        at = bisect_left(names, name)
        return at < len(names) and (names[at] == name if literal else names[at].startswith(name))

    return is_there


def _unused(
    found: Mapping[str, Any], now: datetime, topic_is_there: Callable[[str, bool], bool]
) -> list[dict[str, str]]:
    return [
        {"kind": kind, "id": id_, "name": name, "reason": reason}
        for kind, id_, name, reason in _unused_rows(found, now, topic_is_there)
    ]


_Row = tuple[str, str, str, str]


def _unused_rows(
    found: Mapping[str, Any], now: datetime, topic_is_there: Callable[[str, bool], bool]
) -> Iterator[_Row]:
    since = _at(now - UNUSED_AFTER) or ""
    days = UNUSED_AFTER.days
    for one in found["keys"]:
        if (one["last_used_at"] or one["created_at"]) < since:
            said = f"not used for {days} days" if one["last_used_at"] else f"never used in {days} days"
            yield "key", one["id"], one["name"], said
    for one in found["people"]:
        if one["last_sign_in_at"] is None:
            yield "person", one["id"], one["email"], "never signed in"
        elif one["last_sign_in_at"] < since:
            yield "person", one["id"], one["email"], f"not signed in for {days} days"
        elif not one["active"]:
            yield "person", one["id"], one["email"], "cannot sign in"
    with_keys = {one["principal"] for one in found["keys"]}
    for one in found["service_accounts"]:
        if "keys" not in found["left_out"] and f"{rules.ACCOUNT_KIND}{one['id']}" not in with_keys:
            yield "service_account", one["id"], one["name"], "has no valid key"
    known = set(_principals(found))
    # Of a list that is not whole, no one can be said to be gone.
    unsure = tuple(kind for kind, name in _KINDS if name in found["left_out"])
    for one in found["groups"]:
        for member in one["members"]:
            if member not in known and not member.startswith(unsure):
                yield "group", one["id"], one["name"], f"its member {member} is gone"
    for one in found["entries"]:
        if one["principal"] not in known and not one["principal"].startswith(unsure):
            yield "entry", one["id"], one["text"], f"{one['principal']} is gone"
        elif _is_of_no_topic(one, topic_is_there):
            yield "entry", one["id"], one["text"], f"there is no {_of_topics(one)}"


def _is_of_no_topic(entry: Mapping[str, Any], topic_is_there: Callable[[str, bool], bool]) -> bool:
    """Of groups and transactional ids the control plane does not know which there are."""
    if entry["resource"] != rules.TOPIC or not entry["name"]:
        return False
    return not topic_is_there(entry["name"], entry["pattern"] == "literal")


def _of_topics(entry: Mapping[str, Any]) -> str:
    name = entry["name"]
    return f"topic {name}" if entry["pattern"] == "literal" else f"topic whose name begins with {name}"


def _principals(found: Mapping[str, Any]) -> Iterable[str]:
    yield rules.EVERYONE
    for kind, name in _KINDS:
        yield from (f"{kind}{one['id']}" for one in found[name])


# -- what was done and refused --------------------------------------------------------------------------


def changing(rows: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
    """Those about what decides who may do what, without reads."""
    return rows.filter(outcome=DONE, object_kind__in=ACTIVITY_KINDS).exclude(action__in=_READS)


def counted(
    name: str, rows: QuerySet[AuditEntry], names: Mapping[str, str], left_out: dict[str, int]
) -> list[dict[str, Any]]:
    """How often, by actor and action, the most frequent first."""
    by_actor = (
        rows.order_by()
        .values_list("actor_kind", "actor_id", "action")
        .annotate(sum_of_times=Sum("times"))
        .order_by("-sum_of_times", "actor_kind", "actor_id", "action")
    )
    taken = list(by_actor[: ACTORS_MAX + 1])
    if len(taken) > ACTORS_MAX:
        left_out[name] = by_actor.count() - ACTORS_MAX
    return [
        {
            "actor_kind": kind,
            "actor_id": actor,
            "name": names.get(actor, ""),
            "action": action,
            "times": int(times),
        }
        for kind, actor, action, times in taken[:ACTORS_MAX]
    ]


def _at(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
