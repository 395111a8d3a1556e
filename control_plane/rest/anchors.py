"""REST of anchors: what the service publishes of all billing chains, a signed document a day, for everyone."""

from datetime import date
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import anchor_actions
from billing.anchor_models import DayAnchor
from control_plane.api import shapes
from control_plane.rest.views import PublicView
from penstock.contract.anchor_documents import is_day
from penstock.contract.errors import NotFound

DAYS_SHOWN = 400
KEPT_S = 86_400
"""By browsers and proxies: a document never changes."""


class AnchorDayShape(serializers.Serializer[Any]):
    day = serializers.DateField(help_text="UTC.")
    document_sha256 = serializers.CharField()
    published_at = shapes.Moment()


class AnchorDaysShape(serializers.Serializer[Any]):
    days = AnchorDayShape(many=True, help_text=f"The newest {DAYS_SHOWN}, the newest first.")


class AnchorsDocumentShape(serializers.Serializer[Any]):
    """The newest entry of every billing chain, of those that were made before the day's end."""

    format = serializers.IntegerField()
    kind = serializers.CharField()
    issuer = serializers.CharField()
    day = serializers.DateField()
    previous_sha256 = serializers.CharField(
        help_text="`document_sha256` of the day published before; 64 zeros for the first."
    )
    leaves = serializers.ListField(
        child=serializers.CharField(),
        help_text="A SHA-256 for each chain, of tenant, day, and the newest entry's sequence and hash. Only who knows"
        " the entry can tell which one is whose.",
    )


class SignedAnchorsShape(serializers.Serializer[Any]):
    document = AnchorsDocumentShape()
    document_sha256 = serializers.CharField(help_text="Of the document in its canonical form.")
    key = serializers.CharField(help_text="The service's public key, Ed25519, as hex digits.")
    signature = serializers.CharField(help_text="Over the purpose and `document_sha256`, as hex digits.")


class AnchorDaysView(PublicView):
    @extend_schema(operation_id="anchors_list", auth=[], responses={200: AnchorDaysShape})
    def get(self, request: Request) -> Response:
        """Days whose anchors are published: what holds the service to every invoice up to then. For everyone."""
        rows = anchor_actions.published().order_by("-day")[:DAYS_SHOWN]
        return Response({"days": AnchorDayShape(rows, many=True).data})


class AnchorDayView(PublicView):
    @extend_schema(
        operation_id="anchors_read", auth=[], responses={200: SignedAnchorsShape, **shapes.problems(404)}
    )
    def get(self, request: Request, day: str) -> HttpResponse:
        """A day's anchors, signed. Keep it where the service cannot change it: `penstock verify-invoice --bundle B
        --anchor FILE` holds any invoice to it that was issued by then.
        """
        row: DayAnchor = anchor_actions.of_day(_day(day))
        return HttpResponse(
            row.content,
            content_type="application/json",
            headers={"Cache-Control": f"public, max-age={KEPT_S}, immutable"},
        )


def _day(text: str) -> date:
    if not is_day(text):
        raise NotFound(f"anchors of {text[:20]!r}: no day like 2026-11-27")
    return date.fromisoformat(text)
