"""REST: a tenant's audit log. It is in this package because the audit app imports no other app."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import shapes
from control_plane.api.pages import Key, KeyedList
from control_plane.api.parameters import moment
from control_plane.audit import queries
from control_plane.audit.models import AuditEntry
from control_plane.rest.views import TenantView
from penstock.contract.audit_entries import OUTCOMES
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.limits import AUDIT_EXPORT_ENTRIES_MAX
from tenants.roles import Permission

LINES = "application/x-ndjson"
_SEQUENCE = re.compile(r"[1-9][0-9]{0,17}")
_AFTER = re.compile(r"[0-9]{1,18}")
_LIMIT = re.compile(r"[0-9]{1,9}")
_ORDERS = ("oldest", "newest")
_TEXT_MAX = 255
SEARCHING = (
    OpenApiParameter("actor", str, description="Public id of a person, key or operator: only what they did."),
    OpenApiParameter("object", str, description="Public id of an object: only entries about it."),
    OpenApiParameter("kind", str, description="Of the object, for instance `topic` or `key`."),
    OpenApiParameter(
        "name",
        str,
        description="Of the object, now or earlier: all entries about objects that had it.",
    ),
    OpenApiParameter("action", str, description="For instance `topic.create`."),
    OpenApiParameter("outcome", {"type": "string", "enum": list(OUTCOMES)}),
    OpenApiParameter("from", str, description="A day or moment (UTC), inclusive."),
    OpenApiParameter("to", str, description="A day or moment (UTC), exclusive."),
    OpenApiParameter(
        "order",
        {"type": "string", "enum": list(_ORDERS), "default": _ORDERS[0]},
        description="Which entries come first.",
    ),
)
"""What a list of entries is searched by."""
EXPORTING = (
    OpenApiParameter(
        "after",
        {"type": "integer", "minimum": 0, "default": 0},
        description="The last sequence that you have; 0: from the beginning.",
    ),
    OpenApiParameter(
        "limit",
        {
            "type": "integer",
            "minimum": 1,
            "maximum": AUDIT_EXPORT_ENTRIES_MAX,
            "default": AUDIT_EXPORT_ENTRIES_MAX,
        },
        description="Entries of one answer.",
    ),
)
"""Which entries an export has."""
SEQUENCE = OpenApiParameter("sequence", int, description="Number of an entry; the newest if not given.")
"""Which entry of a chain is meant."""


class AuditShape(serializers.Serializer[Any]):
    sequence = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor_kind = serializers.CharField()
    actor_id = serializers.CharField()
    action = serializers.CharField()
    outcome = serializers.ChoiceField(OUTCOMES)
    times = serializers.IntegerField(
        help_text="1; of what is counted, refusals and sensitive reads, how often in its minute (`after.audit`)."
    )
    object_kind = serializers.CharField()
    object_id = serializers.CharField(help_text="Empty for what is counted.")
    object_name = serializers.CharField(help_text="Empty where the entry does not name the object.")
    before = serializers.DictField()
    after = serializers.DictField()
    request_id = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]
    previous_hash = serializers.CharField()
    hash = serializers.CharField(help_text="SHA-256 over the previous hash and this entry.")


class AuditHeadShape(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    sequence = serializers.IntegerField(help_text="Number of the entry; 0: there is none yet.")
    hash = serializers.CharField(help_text="It covers this entry and all earlier ones.")


class AuditView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.AUDIT_READ}

    @extend_schema(
        operation_id="audit_list",
        parameters=[
            shapes.TENANT,
            *shapes.PAGING,
            *SEARCHING,
        ],
        responses={200: shapes.listed("Audit", AuditShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """Who changed, was refused or read what, oldest first."""
        return self.paged(found(request, self.tenant.public_id), AuditShape)


class AuditExportView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.AUDIT_READ}

    @extend_schema(
        operation_id="audit_export",
        parameters=[
            shapes.TENANT,
            *EXPORTING,
        ],
        responses={
            (200, LINES): OpenApiTypes.STR,
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Entries in the chain's order, one JSON object a line, with all that verifying the chain needs.

        Repeat it after the last line's `sequence` until the answer is empty. An answer that breaks off is continued
        after its last whole line.
        """
        return exported(request, self.tenant.public_id)


class AuditHeadView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.TENANT_READ}

    @extend_schema(
        operation_id="audit_head",
        parameters=[
            shapes.TENANT,
            SEQUENCE,
        ],
        responses={200: AuditHeadShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The end of the audit log's hash chain, to store and compare later. It reveals nothing of the entries."""
        return head_of(request, self.tenant.public_id)


def head_of(request: Request, chain: str) -> Response:
    """Number and hash of the newest entry of a chain, or of the one that the request names (`SEQUENCE`)."""
    asked = request.query_params.get("sequence")
    if asked is None:
        sequence, newest = queries.head(chain)
        return Response(AuditHeadShape({"tenant": chain, "sequence": sequence, "hash": newest}).data)
    if not _SEQUENCE.fullmatch(asked):
        raise InvalidRequest(f"sequence: {asked[:32]!r} is not a whole number above 0")
    earlier = queries.hash_at(chain, int(asked))
    if earlier is None:
        raise NotFound(f"the audit log has no entry {asked}")
    return Response(AuditHeadShape({"tenant": chain, "sequence": int(asked), "hash": earlier}).data)


def found(request: Request, chain: str) -> KeyedList:
    """The entries of a chain that the request searches for (`SEARCHING`)."""
    newest_first = _one_of(request, "order", _ORDERS) == "newest"
    search = queries.Search(
        actor=_text(request, "actor"),
        object_id=_text(request, "object"),
        kind=_text(request, "kind"),
        name=_text(request, "name"),
        action=_text(request, "action"),
        outcome=_one_of(request, "outcome", OUTCOMES),
        since=moment(request, "from"),
        until=moment(request, "to"),
    )
    read = partial(queries.page, chain, search, newest_first=newest_first)
    return KeyedList(read_after=lambda after, most: read(after=_position_of(after), most=most), key=_key_of)


def exported(request: Request, chain: str) -> StreamingHttpResponse:
    """The lines of a chain that the request asks for (`EXPORTING`)."""
    after = _number(request, "after", _AFTER, 0, 0, 10**18)
    most = _number(request, "limit", _LIMIT, AUDIT_EXPORT_ENTRIES_MAX, 1, AUDIT_EXPORT_ENTRIES_MAX)
    return StreamingHttpResponse(_lines(chain, after, most), content_type=LINES)


def _lines(chain: str, after: int, most: int) -> Iterator[bytes]:
    for entry in queries.chain_after(chain, after, most):
        yield json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def _key_of(entry: AuditEntry) -> Key:
    return (entry.at.isoformat(), entry.sequence)


def _position_of(key: Key | None) -> queries.Position | None:
    return None if key is None else (datetime.fromisoformat(str(key[0])), int(key[1]))


def _text(request: Request, name: str) -> str | None:
    text = request.query_params.get(name)
    if text is not None and len(text) > _TEXT_MAX:
        raise InvalidRequest(f"{name}: {len(text)} characters, at most {_TEXT_MAX} allowed")
    return text


def _one_of(request: Request, name: str, known: tuple[str, ...]) -> str | None:
    text = request.query_params.get(name)
    if text is not None and text not in known:
        raise InvalidRequest(f"{name}: {text[:32]!r}; {' or '.join(known)} required")
    return text


def _number(request: Request, name: str, form: re.Pattern[str], default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not form.fullmatch(text) or not least <= int(text) <= most:
        raise InvalidRequest(f"{name}: {text[:32]!r} is not within {least} to {most}")
    return int(text)
