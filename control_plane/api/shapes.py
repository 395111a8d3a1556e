"""Shapes that all answers share, and the parameters that many operations take, for the OpenAPI document.

A shape makes the answer and describes it in the document. Users read its docstring and help texts, so notes about the
code are comments.
"""

from datetime import datetime
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema_field, inline_serializer
from rest_framework import serializers

from control_plane.api import etags, idempotency
from control_plane.api.pages import CURSOR_PARAMETER, LIMIT_PARAMETER
from control_plane.api.parameters import TENANT_HEADER
from penstock.contract.ids import PARTITION_MAX, TOPIC_ID_BYTES
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
    description="The object's ETag as you read it. The change is made only if the ETag is still the same, else the "
    "answer is 412. Without this header the change is always made.",
)
ETAG = OpenApiParameter(
    "ETag",
    str,
    OpenApiParameter.HEADER,
    response=(200, 201),
    description="Version of the object, for If-Match. It changes with every change of the object.",
)
CURSOR = OpenApiParameter(
    CURSOR_PARAMETER,
    str,
    description="`next` of the previous page, of the same list with the same parameters.",
)
LIMIT = OpenApiParameter(
    LIMIT_PARAMETER,
    {"type": "integer", "minimum": 1, "maximum": PAGE_ITEMS_MAX, "default": PAGE_ITEMS_DEFAULT},
    description=f"Items per page, 1 to {PAGE_ITEMS_MAX}; the default is {PAGE_ITEMS_DEFAULT}.",
)
PAGING = [CURSOR, LIMIT]
DRY_RUN_PARAMETER = "dry_run"
DRY_RUN = {
    "in": "query",
    "name": DRY_RUN_PARAMETER,
    "schema": {"type": "string", "enum": ["false", "true"], "default": "false"},
    "description": "`true`: make the same checks, change nothing, and answer 200 with what would change.",
}
"""As the OpenAPI document has it."""


class TopicIdField(serializers.RegexField):
    # As brokers know a topic.
    def __init__(self, **options: Any) -> None:
        super().__init__(rf"^[0-9a-f]{{{2 * TOPIC_ID_BYTES}}}$", **options)


class PartitionField(serializers.IntegerField):
    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=PARTITION_MAX, **options)


class Problem(serializers.Serializer[Any]):
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField(help_text="Name in the error table, in lower case.")
    fields = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))  # type: ignore[assignment]
    limit = serializers.CharField(
        required=False, help_text="Name of the limit that was reached, where it was one."
    )


class Moment(serializers.DateTimeField):
    """A moment of an answer: ISO 8601 with its offset, `+00:00`."""

    def to_representation(self, value: datetime | str) -> str:
        return value if isinstance(value, str) else value.isoformat()


class Token(serializers.Serializer[Any]):
    """The object's generation after the change. Brokers that have this generation have the change."""

    object = serializers.CharField(source="public_id")
    generation = serializers.IntegerField()


# What the answer to a change has beside the object. The context has `delivered`: whether the brokers have the change.
class Delivery(serializers.Serializer[Any]):
    delivered = serializers.SerializerMethodField()
    token = Token(source="*")

    def get_delivered(self, row: object) -> bool:
        return bool(self.context["delivered"])


@extend_schema_field({})
class AnyValue(serializers.JSONField):
    """Anything that JSON holds; null too, so it is not said to be nullable: null would fit the schema twice."""


class FieldChange(serializers.Serializer[Any]):
    field = serializers.CharField()
    before = AnyValue(help_text="null: not set, or there is no such object yet.")
    after = AnyValue(help_text="null: not set, or the object would be gone.")


class ObjectChange(serializers.Serializer[Any]):
    """What would be made, changed or removed, named as in the audit log."""

    kind = serializers.CharField()
    id = serializers.CharField(
        allow_null=True, help_text="null: it would be made, under an id not known yet."
    )
    name = serializers.CharField(allow_null=True)
    action = serializers.CharField(help_text="What would happen to it, as `create`.")
    fields = FieldChange(many=True)  # type: ignore[assignment]


class DryRun(serializers.Serializer[Any]):
    """What a change would do, in its order, with what goes along with it. Nothing was changed."""

    dry_run = serializers.BooleanField()
    changes = ObjectChange(many=True)
    monthly_cost_change = serializers.DecimalField(
        max_digits=20, decimal_places=2, allow_null=True, help_text="null: `monthly_cost_reason` says why."
    )
    monthly_cost_reason = serializers.CharField()


class Condition(serializers.Serializer[Any]):
    """Why the object is not as desired on the brokers."""

    type = serializers.CharField()
    reason = serializers.CharField()
    message = serializers.CharField()
    since = Moment()


_TYPES: tuple[tuple[Any, type, str], ...] = (
    (serializers.BooleanField, bool, "true or false required"),
    (serializers.IntegerField, int, "a whole number required"),
    ((serializers.CharField, serializers.ChoiceField, serializers.DateTimeField), str, "text required"),
)
"""What JSON must have for a field. The framework itself takes `"yes"` for true, `"1_0"` for 10 and 5 for "5"."""


class StrictSerializer(serializers.Serializer[Any]):
    """Input whose unknown fields are refused, so that a mistyped one is not ignored."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = sorted(set(data) - set(self.fields))
            if unknown:
                known = ", ".join(sorted(self.fields))
                raise serializers.ValidationError(
                    {name: [f"no such field; known: {known}"] for name in unknown}
                )
            wrong = {name: _of_wrong_type(field, data.get(name)) for name, field in self.fields.items()}
            if any(wrong.values()):
                raise serializers.ValidationError({name: [said] for name, said in wrong.items() if said})
        return super().to_internal_value(data)


def _of_wrong_type(field: Any, value: Any) -> str:
    """What is required instead; empty: nothing is wrong. Null and lists are left to the field."""
    if isinstance(field, serializers.ListField) and isinstance(value, list):
        return next(filter(None, (_of_wrong_type(field.child, item) for item in value)), "")
    for kind, wanted, said in _TYPES:
        if isinstance(field, kind):
            # True is an int to Python, not to JSON.
            fits = isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))
            return "" if value is None or fits else said
    return ""


def listed(
    name: str, item: serializers.BaseSerializer[Any], **extra: serializers.Field[Any, Any, Any, Any]
) -> Any:
    """A page of `item`, which is made with many=True. `extra` are further members of the answer."""
    return inline_serializer(
        name=f"{name}Page",
        fields={
            "items": item,
            **extra,
            "next": serializers.CharField(
                allow_null=True, help_text="The `cursor` of the next page; null: this is the last one."
            ),
        },
    )


def problems(*statuses: int) -> dict[Any, Any]:
    """The refusals that an operation documents, beside its answers."""
    return {(status, "application/problem+json"): Problem for status in (400, 401, *statuses, 429)}
