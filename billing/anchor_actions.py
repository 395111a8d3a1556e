"""Publishes the anchors of a day that has ended: the newest entry of every billing chain, without names, signed.

The document is for everyone (`GET /v1/anchors`), and its hash enters the audit log of the service, which leaves it by
webhooks and exports.
"""

import logging
from datetime import UTC, date, datetime, timedelta

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from django.db import transaction
from django.db.models import F, Max, QuerySet

from billing.anchor_models import AnchorKey, DayAnchor
from billing.models import BillingEntry
from control_plane import config
from control_plane.audit import actions as audit
from control_plane.audit.actor import system
from control_plane.couriers import sealing
from penstock.contract.anchor_documents import AnchorsDocument, SignedAnchors, leaf, signed_bytes
from penstock.contract.document_fields import NO_HASH
from penstock.contract.documents import document_sha256
from penstock.contract.errors import NotFound
from penstock.contract.ids import SYSTEM_TENANT

PUBLISHER = system("billing.anchors")
SETTLED = timedelta(minutes=10)
"""After a day's end: transactions that began in it have ended."""
OVERDUE = timedelta(hours=1)
"""After a day has settled: some hundred bill runs could have published it."""
_PURPOSE = "billing anchors"
_log = logging.getLogger(__name__)


def publish_due(now: datetime) -> DayAnchor | None:
    """Publish the newest day that has ended, once; None if it was, or no chain had begun by then. Days that passed
    while the service was off have no document of their own: the next one covers them.
    """
    day = (now.astimezone(UTC) - SETTLED).date() - timedelta(days=1)
    if DayAnchor.objects.filter(day__gte=day).exists():
        return None
    return _publish(day, now)


def overdue_days(now: datetime) -> int:
    """Days after the newest published one, or from the first chain's on, that could have been published `OVERDUE`
    ago: the log of the bill run says why none is.
    """
    due = (now.astimezone(UTC) - SETTLED - OVERDUE).date() - timedelta(days=1)
    newest: date | None = DayAnchor.objects.aggregate(newest=Max("day"))["newest"]
    if newest is None:
        first = BillingEntry.objects.order_by("pk").values_list("at", flat=True).first()
        if first is None:
            return 0
        newest = first.astimezone(UTC).date() - timedelta(days=1)
    return max(0, (due - newest).days)


def _publish(day: date, now: datetime) -> DayAnchor | None:
    end = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
    with transaction.atomic():
        # Of two workers one makes the key, and with it locked the document.
        key = _locked_key()
        if DayAnchor.objects.filter(day__gte=day).exists():
            return None
        leaves = sorted(
            leaf(tenant, f"{day}", sequence, entry_hash)
            for tenant, sequence, entry_hash in _heads(end).iterator()
        )
        if not leaves:
            return None
        before = DayAnchor.objects.order_by("-day").first()
        document = AnchorsDocument(
            format=1,
            kind="billing_anchors",
            issuer=config.current().invoices.issuer[:200],
            day=f"{day}",
            previous_sha256=NO_HASH if before is None else before.document_sha256,
            leaves=tuple(leaves),
        )
        sha256 = document_sha256(document)
        secret = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(sealing.opened(_PURPOSE, key.secret)))
        signed = SignedAnchors(
            document=document,
            document_sha256=sha256,
            key=key.public,
            signature=secret.sign(signed_bytes(document)).hex(),
        )
        row = DayAnchor.objects.create(
            day=day,
            content=msgspec.json.encode(signed).decode(),
            document_sha256=sha256,
            published_at=now,
        )
        audit.record(
            PUBLISHER,
            tenant=SYSTEM_TENANT,
            action="billing_anchors.publish",
            object_id=f"{day}",
            after={"document_sha256": sha256, "chains": len(leaves), "key": key.public},
        )
    _log.info("anchors published", extra={"day": f"{day}", "chains": len(leaves)})
    return row


def _heads(end: datetime) -> "QuerySet[BillingEntry, tuple[str, int, str]]":
    """(tenant, sequence, hash) of each chain's newest entry before then."""
    newest = (
        BillingEntry.objects.filter(at__lt=end).values("tenant").annotate(newest=Max("pk")).values("newest")
    )
    return (
        BillingEntry.objects.filter(pk__in=newest)
        .annotate(of=F("tenant__public_id"))
        .values_list("of", "sequence", "hash")
        .order_by("pk")
    )


def _locked_key() -> AnchorKey:
    row = AnchorKey.objects.select_for_update(no_key=True).order_by("pk").first()
    if row is not None:
        return row
    made = Ed25519PrivateKey.generate()
    secret = made.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()).hex()
    public = made.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    AnchorKey.objects.create(secret=sealing.sealed(_PURPOSE, secret), public=public)
    return AnchorKey.objects.select_for_update(no_key=True).order_by("pk")[0]


def published() -> QuerySet[DayAnchor]:
    """All days, without what they hold."""
    return DayAnchor.objects.defer("content")


def of_day(day: date) -> DayAnchor:
    """Raises `NotFound`."""
    row = DayAnchor.objects.filter(day=day).first()
    if row is None:
        raise NotFound(f"anchors of {day}: not published; GET /v1/anchors lists the days that are")
    return row
