"""Writes to a tenant's owners when it keeps 80 % and when it keeps all of `storage_bytes_max`.

    NONE --80 %--> WARNED OF 80 --100 %--> WARNED OF 100
    NONE --100 %--> WARNED OF 100
    any --below 75 %, as a controller says that knows all--> NONE

A tenant that goes to and fro about a mark is written to once. What is not known changes nothing: a controller that has
just begun knows too little, and then no warning is taken back.
"""

from urllib.parse import quote

from django.db import transaction
from django.utils import timezone

from control_plane import config
from control_plane.brokers.view import NearStorageSeen, StorageUseSeen
from control_plane.mail import actions as mails
from control_plane.mail.letter import Letter
from penstock.rules.nearness import NEAR_PERCENT, is_near
from quotas import growth
from quotas.models import StorageWarning
from tenants.models import Tenant
from tenants.organisations.queries import owners_of

NEAR, FULL = NEAR_PERCENT, 100
"""Percent of the limit."""
MAIL_KIND = "storage-limit"
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def note(seen: NearStorageSeen | None) -> int:
    """Write about what the controller has just said; how many tenants were written to. None: it said nothing."""
    if seen is None:
        return 0
    warned = dict(StorageWarning.objects.values_list("tenant__public_id", "percent"))
    if seen.whole:
        cleared = warned.keys() - {one.tenant for one in seen.uses}
        if cleared:
            StorageWarning.objects.filter(tenant__public_id__in=cleared).delete()
    return sum(_warn(one) for one in seen.uses if warned.get(one.tenant, 0) < _mark(one))


def forget(tenant: Tenant) -> None:
    """For a tenant that is purged."""
    StorageWarning.objects.filter(tenant=tenant).delete()


def _mark(use: StorageUseSeen) -> int:
    """The highest mark that it has reached; 0 = none."""
    if use.used_bytes >= use.limit:
        return FULL
    return NEAR if is_near(use.used_bytes, use.limit) else 0


def _warn(use: StorageUseSeen) -> bool:
    with transaction.atomic():
        tenant = (
            Tenant.objects.select_for_update(no_key=True).filter(public_id=use.tenant, closed_at=None).first()
        )
        mark = _mark(use)
        if tenant is None:
            return False
        is_stopped = tenant.pk in growth.kept_max_by_tenant(tenant)
        if is_stopped and mark == NEAR:
            return False  # as soon as a ceiling of cost stops growth, which was said
        row = StorageWarning.objects.filter(tenant=tenant).first()
        if row is not None and row.percent >= mark:
            return False  # another worker was first
        StorageWarning.objects.update_or_create(
            tenant=tenant, defaults={"percent": mark, "warned_at": timezone.now()}
        )
        letter = (
            full(tenant.name, use, _STOPPED if is_stopped else _SPACE)
            if mark == FULL
            else near(tenant.name, use)
        )
        for owner in owners_of(tenant):
            mails.put(owner.email, MAIL_KIND, letter)
    return True


# -- what the e-mails say -----------------------------------------------------------------------------------

_SPACE = (
    "To free space, delete topics that are no longer needed (they count until they have left the recycle bin), give "
    "topics a shorter retention, or ask for a higher limit."
)
_STOPPED = (
    "The limit is lower now because a ceiling of cost has stopped growth: it ends when less is expected, or once the "
    "amount of that budget is raised. Else delete topics that are no longer needed (they count until they have left "
    "the recycle bin), or give topics a shorter retention."
)


def near(tenant: str, use: StorageUseSeen) -> Letter:
    """To an owner: most of the limit is used."""
    return Letter(
        subject=f"{tenant} keeps {_percent(use)} of the storage it is allowed",
        paragraphs=(
            f"The topics of {tenant} keep {size(use.used_bytes)}, {_percent(use)} of the {size(use.limit)} that its "
            "limit storage_bytes_max allows. Everything works as before.",
            "Above 100 %, new messages are refused until space is free. What was stored stays, and can be read.",
            _SPACE,
        ),
        link=_topics(tenant),
        link_says="Look at the topics",
        after=(
            f"You own {tenant}. We write again when it keeps 100 %, and not about 80 % before it has kept less than "
            "75 %.",
        ),
    )


def full(tenant: str, use: StorageUseSeen, space: str = _SPACE) -> Letter:
    """To an owner: the limit is reached. `space`: how there may be more."""
    return Letter(
        subject=f"{tenant} has no storage left: new messages are refused",
        paragraphs=(
            f"The topics of {tenant} keep {size(use.used_bytes)}, and its limit storage_bytes_max is "
            f"{size(use.limit)}. "
            "New messages are refused above it. The SDK waits and tries again until its delivery timeout; then the "
            "application gets an error.",
            "What was stored stays, and can be read. Producing goes on by itself when it keeps at most 95 % of the "
            "limit.",
            space,
        ),
        link=_topics(tenant),
        link_says="Look at the topics",
        after=(f"You own {tenant}. We write about this again only after it has kept less than 75 %.",),
    )


def size(of_bytes: int) -> str:
    """As people read it: 41.2 GB."""
    number, unit = float(of_bytes), 0
    while number >= 999.95 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:,.1f} {_UNITS[unit]}" if unit else f"{of_bytes} bytes"


def _percent(use: StorageUseSeen) -> str:
    """Rounded down, so that it says 100 only of what is full."""
    return f"{use.used_bytes * 100 // use.limit} %"


def _topics(tenant: str) -> str:
    return f"{config.current().public_url.rstrip('/')}/t/{quote(tenant)}/topics"
