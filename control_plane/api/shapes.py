"""Shapes that all answers share, and the parameters that many operations take, for the OpenAPI document.

A shape makes the answer and is what the document says of it. Users read its docstring and help texts; what the code has
to know of it stands in comments.
"""

from datetime import datetime
from typing import Any

from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers

from control_plane.api import etags, idempotency
from control_plane.api.pages import CURSOR_PARAMETER, LIMIT_PARAMETER
from control_plane.api.parameters import TENANT_HEADER
from penstock.contract.limits import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX

TENANT = OpenApiParameter(
    TENANT_HEADER,
    str,
    OpenApiParameter.HEADER,
    description="Public id of the tenant; not needed with an API key, or with one tenant only.",
)
IDEMPOTENCY = OpenApiParameter(
    idempotency.HEADER,
    str,
    OpenApiParameter.HEADER,
    description="A request sent again with the same key gets the first answer and does nothing (24 hours).",
)
IF_MATCH = OpenApiParameter(
    etags.HEADER,
    str,
    OpenApiParameter.HEADER,
    description="The object's ETag as it was read: the change is made only if it is still that, else 412. "
    "Without it the change is made on whatever is there.",
)
ETAG = OpenApiParameter(
    "ETag",
    str,
    OpenApiParameter.HEADER,
    response=(200, 201),
    description="Names what can be changed of the object as it is now, for If-Match.",
)
CURSOR = OpenApiParameter(
    CURSOR_PARAMETER,
    str,
    description="`next` of the page before, of the same list with the same parameters.",
)
LIMIT = OpenApiParameter(
    LIMIT_PARAMETER,
    {"type": "integer", "minimum": 1, "maximum": PAGE_ITEMS_MAX, "default": PAGE_ITEMS_DEFAULT},
    description=f"Items a page, 1 to {PAGE_ITEMS_MAX}; {PAGE_ITEMS_DEFAULT} if not given.",
)
PAGING = [CURSOR, LIMIT]


class Problem(serializers.Serializer[Any]):
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField(help_text="Name in the error table, in lower case.")
    fields = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))  # type: ignore[assignment]


class Moment(serializers.DateTimeField):
    """A moment of an answer: ISO 8601 with its offset, `+00:00`."""

    def to_representation(self, value: datetime | str) -> str:
        return value if isinstance(value, str) else value.isoformat()


class Token(serializers.Serializer[Any]):
    """What a change made of the object: brokers that have this generation have the change."""

    object = serializers.CharField(source="public_id")
    generation = serializers.IntegerField()


# What the answer to a change says beside the object. The context has `delivered`: whether the brokers have it.
class Told(serializers.Serializer[Any]):
    delivered = serializers.SerializerMethodField()
    token = Token(source="*")

    def get_delivered(self, row: object) -> bool:
        return bool(self.context["delivered"])


class Condition(serializers.Serializer[Any]):
    """Something that is not as it should be."""

    type = serializers.CharField()
    reason = serializers.CharField()
    message = serializers.CharField()
    since = Moment()


class StrictSerializer(serializers.Serializer[Any]):
    """Input whose unknown fields are refused, so that a mistyped one is not passed over."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = sorted(set(data) - set(self.fields))
            if unknown:
                known = ", ".join(sorted(self.fields))
                raise serializers.ValidationError(
                    {name: [f"no such field; known: {known}"] for name in unknown}
                )
        return super().to_internal_value(data)


def listed(
    name: str, item: serializers.BaseSerializer[Any], **beside: serializers.Field[Any, Any, Any, Any]
) -> Any:
    """A page of `item`, which is made with many=True; `beside` is what else the answer holds."""
    return inline_serializer(
        name=f"{name}Page",
        fields={
            "items": item,
            **beside,
            "next": serializers.CharField(
                allow_null=True, help_text="The `cursor` of the page that follows; null: there is none."
            ),
        },
    )


def problems(*statuses: int) -> dict[Any, Any]:
    """The refusals that an operation documents beside its answers."""
    return {(status, "application/problem+json"): Problem for status in (400, 401, *statuses, 429)}
