"""Tags of topics and principals, by which a tenant sees whose costs are whose: set, read, and what they may be."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet

from billing.cost_models import CostTag
from control_plane.access.queries import known_principals, owner_of
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.topics.models import Topic
from penstock.contract.errors import InvalidRequest, LimitExceeded, NotFound
from penstock.contract.resources.cost_tags import TAG_LENGTH_MAX, TAGS_OF_ONE_MAX
from penstock.rules.access import ACCOUNT_KIND, PERSON_KIND, SERVICE
from penstock.rules.names import check_display_name
from tenants.models import ApiKey, Tenant

TOPIC, PRINCIPAL = "topic", "principal"
KINDS = (TOPIC, PRINCIPAL)
TAGS_MAX = 50_000
"""Of a tenant."""
_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPrincipal:
    """Whose key it is, as access lists name them; `name` is for people, empty where it has none."""

    principal: str
    name: str


def is_tag_key(text: str) -> bool:
    """Whether a tag may have this key, as `team`."""
    return _KEY.fullmatch(text) is not None


def tags(tenant: Tenant, visible: Callable[[str], bool] | None = None) -> QuerySet[CostTag]:
    """All of the tenant's; of topics only those that are `visible` (None: all)."""
    rows = CostTag.objects.filter(tenant=tenant)
    if visible is None:
        return rows
    of_topics = rows.filter(kind=TOPIC).order_by().values_list("name", flat=True).distinct()
    return rows.exclude(kind=TOPIC, name__in=[name for name in of_topics if not visible(name)])


def tags_of(tenant: Tenant, kind: str, name: str) -> dict[str, str]:
    """Key -> value of one topic or principal; none for what has none, also where there is no such thing."""
    rows = tags(tenant).filter(kind=kind, name=name)
    return dict(rows.order_by("key").values_list("key", "value"))


def known_tags_of(
    tenant: Tenant, kind: str, name: str, visible: Callable[[str], bool] | None = None
) -> dict[str, str]:
    """As `tags_of`. Raises `NotFound` where there is no such topic or principal and none that is gone has tags, and
    for a topic that is not `visible`.
    """
    hidden = "\0" in name or (kind == TOPIC and visible is not None and not visible(name))
    found = {} if hidden else tags_of(tenant, kind, name)
    if not found and (hidden or not _is_there(tenant, kind, name)):
        raise NotFound(f"{kind[:20]} {name[:64]!r}: not found")
    return found


def tag_keys(tenant: Tenant) -> list[str]:
    """Keys that the tenant uses."""
    return list(tags(tenant).order_by("key").values_list("key", flat=True).distinct())


def set_tags(actor: Actor, tenant: Tenant, kind: str, name: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """Replace all tags of a topic or a principal. The same again changes nothing; of what is gone they may be changed.
    Raises `InvalidRequest`, `LimitExceeded`, and `NotFound` for new tags of a thing that the tenant does not have.
    """
    if len(wanted) > TAGS_OF_ONE_MAX:
        raise InvalidRequest(f"tags: {len(wanted)}; at most {TAGS_OF_ONE_MAX} of one {kind} allowed")
    for key, value in wanted.items():
        if not is_tag_key(key):
            raise InvalidRequest(f"tags: key {key[:70]!r}; a to z, 0 to 9, _ and - required, at most 63")
        check_display_name(f"tags: {key}", value, TAG_LENGTH_MAX)
    with transaction.atomic():
        # One change of a tenant's tags at a time, so that their number stays within the limit.
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        before = tags_of(tenant, kind, name)
        if not before and not _is_there(tenant, kind, name):
            raise NotFound(f"{kind[:20]} {name[:64]!r}: not found")
        if before == dict(wanted):
            return before
        others = tags(tenant).count() - len(before)
        if others + len(wanted) > TAGS_MAX:
            raise LimitExceeded(
                f"tags: {others} of other topics and principals are set, {TAGS_MAX} allowed in all"
            )
        tags(tenant).filter(kind=kind, name=name).delete()
        CostTag.objects.bulk_create(
            CostTag(tenant=tenant, kind=kind, name=name, key=key, value=value)
            for key, value in sorted(wanted.items())
        )
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="cost_tags.set",
            object_id=f"{kind}:{name}",
            before={"tags": before},
            after={"tags": dict(wanted)},
        )
    return tags_of(tenant, kind, name)


def forget(tenant: Tenant) -> None:
    """For a tenant that is purged: its costs are divided no more."""
    tags(tenant).delete()


def principals_by_number(tenant: Tenant) -> dict[int, KnownPrincipal]:
    """By the number in usage records: every key of the tenant, revoked ones too."""
    rows = ApiKey.objects.filter(tenant=tenant, principal_number__isnull=False)
    found = {}
    for key in rows.select_related("service_account", "maker"):
        name = "" if key.service_account is None else key.service_account.name
        found[int(key.principal_number or 0)] = KnownPrincipal(principal=owner_of(key), name=name)
    return found


def principal_of(number: int, known: Mapping[int, KnownPrincipal]) -> str:
    """The principal of a number in usage records, as access lists name it; empty: none is known."""
    if number in known:
        return known[number].principal
    return f"key:{number}" if number else ""


def _is_there(tenant: Tenant, kind: str, name: str) -> bool:
    if kind not in KINDS:
        return False
    if kind == TOPIC:
        return Topic.objects.filter(tenant=tenant, name=name, deleted_at=None).exists()
    return name == SERVICE or (
        name.startswith((ACCOUNT_KIND, PERSON_KIND)) and name in known_principals(tenant)
    )
