"""Shapes of access lists, groups of principals, service accounts and scopes."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from control_plane.access.models import AclEntry, TenantAccessList
from control_plane.api import shapes
from penstock.contract import limits
from penstock.rules import access as rules
from penstock.rules.access import Acl, Scope

EFFECTS = (rules.ALLOW, rules.DENY)
PATTERNS = ("literal", "prefix")
_OPERATIONS_HELP = (
    "Some of describe, produce, consume, delete, create, alter; a group has describe and consume, a transactional id "
    "describe and produce, the tenant describe and alter."
)


def is_literal(given: Mapping[str, Any]) -> bool:
    """Whether the resource is named by its whole name, as it is where nothing else is said."""
    return given.get("resource") != rules.TENANT and given.get("pattern", "literal") == "literal"


def acl_of(given: Mapping[str, Any]) -> Acl:
    """Raises `InvalidRequest`, `LimitExceeded`."""
    return Acl(
        effect=given["effect"],
        principal=given["principal"],
        resource=given["resource"],
        name=given.get("name", ""),
        literal=is_literal(given),
        operations=tuple(given.get("operations", ())),
        addresses=tuple(given.get("addresses", ())),
    )


def scope_of(given: Mapping[str, Any]) -> Scope:
    """What it means is checked where the key is made."""
    return Scope(
        resource=given.get("resource", ""),
        name=given.get("name", ""),
        literal=is_literal(given),
        operations=tuple(given.get("operations", ())),
    )


class PatternField(serializers.ChoiceField):
    def __init__(self, **options: Any) -> None:
        super().__init__(
            choices=PATTERNS,
            help_text="literal (without one): the resource of this name. prefix: each whose name begins so; an empty "
            "name means all.",
            **options,
        )


def _operations(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(max_length=32), max_length=8, **options)


class ScopeInput(shapes.StrictSerializer):
    resource = serializers.ChoiceField(
        choices=rules.RESOURCES, required=False, help_text="Without one: topics and groups."
    )
    name = serializers.CharField(max_length=300, required=False, allow_blank=True, trim_whitespace=False)
    pattern = PatternField(required=False)
    operations = _operations(
        required=False,
        help_text=f"{_OPERATIONS_HELP} Of a topic also verify: read what proves invoices, and no message. Without any:"
        " describe, produce, consume, delete.",
    )


class PatternShape(serializers.Serializer[Any]):
    def to_representation(self, row: Any) -> dict[str, Any]:
        shown: dict[str, Any] = super().to_representation(row)
        return shown | {"pattern": "literal" if row.literal else "prefix"}


class ScopeShape(PatternShape):
    resource = serializers.CharField(help_text="Empty: topics and groups.")
    name = serializers.CharField(source="topic_prefix")
    pattern = serializers.ChoiceField(choices=PATTERNS, source="resource")
    operations = serializers.ListField(child=serializers.CharField())


class AclInput(shapes.StrictSerializer):
    effect = serializers.ChoiceField(choices=EFFECTS, help_text="An entry that denies wins.")
    principal = serializers.CharField(
        max_length=100, help_text="person:<id>, service_account:<id>, group:<id> or everyone."
    )
    resource = serializers.ChoiceField(choices=rules.RESOURCES)
    name = serializers.CharField(
        max_length=300,
        required=False,
        allow_blank=True,
        trim_whitespace=False,
        help_text="Of the resource; none of the tenant.",
    )
    pattern = PatternField(required=False)
    operations = _operations(
        required=False,
        help_text=f"{_OPERATIONS_HELP} Without any: all that can be done to the resource. Who is allowed one of them "
        "may describe the resource too.",
    )
    addresses = serializers.ListField(
        child=serializers.CharField(max_length=64),
        max_length=limits.ACL_ADDRESSES_MAX,
        required=False,
        help_text="Ranges from which the caller comes, as 10.0.0.0/8 or 2001:db8::/32. Without any: from everywhere.",
    )


class AclShape(PatternShape):
    id = serializers.CharField(source="public_id")
    effect = serializers.ChoiceField(choices=EFFECTS)
    principal = serializers.CharField()
    resource = serializers.ChoiceField(choices=rules.RESOURCES)
    name = serializers.CharField()
    pattern = serializers.ChoiceField(choices=PATTERNS, source="resource")
    operations = serializers.ListField(child=serializers.CharField(), help_text="None: all.")
    addresses = serializers.ListField(child=serializers.CharField(), help_text="None: from everywhere.")
    text = serializers.SerializerMethodField(help_text="The same in words.")
    created_at = shapes.Moment()

    def get_text(self, row: AclEntry) -> str:
        return rules.described(row.acl)


# What an answer has beside a part of the access list. The context has the `list`, and whether it is `delivered`.
class ListDelivery(serializers.Serializer[Any]):
    delivered = serializers.SerializerMethodField(
        help_text="Whether every broker obeys the list as it is now."
    )
    token = serializers.SerializerMethodField()

    def get_delivered(self, _: object) -> bool:
        return bool(self.context["delivered"])

    @extend_schema_field(shapes.Token)
    def get_token(self, _: object) -> Any:
        return shapes.Token(self.context["list"]).data


class ChangedAcl(AclShape, ListDelivery):
    pass


class ChangedAcls(ListDelivery):
    items = AclShape(many=True)


class PresetInput(shapes.StrictSerializer):
    preset = serializers.ChoiceField(choices=tuple(rules.PRESETS))
    principal = AclInput().fields["principal"]
    name = serializers.CharField(
        max_length=300,
        allow_blank=True,
        trim_whitespace=False,
        help_text="Of the topic, or the topics' prefix.",
    )
    pattern = PatternField(required=False)
    group_prefix = serializers.CharField(
        max_length=300,
        allow_blank=True,
        trim_whitespace=False,
        required=False,
        default="",
        help_text="Groups and transactional ids whose names begin so. Without one: all.",
    )


class DefaultInput(shapes.StrictSerializer):
    default = serializers.ChoiceField(choices=EFFECTS)


# Of a tenant's list. The context has the number of its entries, `acls`.
class AccessShape(serializers.Serializer[Any]):
    default = serializers.ChoiceField(choices=EFFECTS, help_text="What holds for what no entry speaks of.")
    acls = serializers.SerializerMethodField(help_text="Number of entries.")
    acls_max = serializers.SerializerMethodField()
    conditions = shapes.Condition(many=True)
    generation = serializers.IntegerField(help_text="0: nothing was ever set.")
    delivered_generation = serializers.IntegerField()

    def get_acls(self, _: TenantAccessList) -> int:
        return int(self.context["acls"])

    def get_acls_max(self, _: TenantAccessList) -> int:
        return limits.ACLS_PER_TENANT_MAX


class ChangedAccess(AccessShape, shapes.Delivery):
    pass


class AnswerShape(serializers.Serializer[Any]):
    principal = serializers.CharField()
    name = serializers.CharField(help_text="E-mail address of the person, or name of the service account.")
    allowed = serializers.BooleanField()
    reason = serializers.CharField()
    entry = AclShape(allow_null=True, help_text="The entry that decided; null: the default.")


class WhoShape(serializers.Serializer[Any]):
    principals = AnswerShape(many=True)


class CheckShape(AnswerShape):
    key = serializers.CharField(allow_null=True)
    scopes_grant = serializers.BooleanField(
        allow_null=True, help_text="Whether one of the key's scopes grants it."
    )


class GroupInput(shapes.StrictSerializer):
    name = serializers.CharField(max_length=200)
    members = serializers.ListField(
        child=serializers.CharField(max_length=100),
        max_length=limits.PRINCIPAL_GROUP_MEMBERS_PER_TENANT_MAX,
        required=False,
        default=list,
        help_text="person:<id>, service_account:<id>, and other groups: group:<id>.",
    )


class MembersInput(shapes.StrictSerializer):
    members = GroupInput().fields["members"]


class GroupShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    members = serializers.ListField(child=serializers.CharField())
    created_at = shapes.Moment()


class ChangedGroup(GroupShape, ListDelivery):
    pass


class AccountInput(shapes.StrictSerializer):
    name = serializers.CharField(max_length=200)


class AccountShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    created_at = shapes.Moment()
