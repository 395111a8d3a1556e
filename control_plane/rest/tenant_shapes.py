"""Shapes of people and tenants, and of requests about them."""

from typing import Any

from rest_framework import serializers

from control_plane.api.shapes import Condition, Delivery, Moment, StrictSerializer
from tenants.people.requirement_actions import GRACE_DAYS, GRACE_DAYS_MAX

_CURRENCY = (
    "What the new tenant is invoiced in, for good: of a price book in effect. Without it as the first prices."
)


class SignUpInput(StrictSerializer):
    email = serializers.CharField(max_length=254)
    password = serializers.CharField(
        max_length=256,
        trim_whitespace=False,
        required=False,
        help_text="Required, unless the service has a mail server: then it is chosen with the link.",
    )
    tenant = serializers.CharField(
        max_length=100, required=False, help_text="Name of a new tenant; not with an invitation."
    )
    invitation = serializers.CharField(
        max_length=100,
        required=False,
        help_text="Token of an invitation: the person joins its tenant or organisation, and no tenant is made.",
    )
    currency = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=3,
        help_text=_CURRENCY + " With a mail server it is chosen with the link; not with an invitation.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("tenant" in attrs) == ("invitation" in attrs):
            raise serializers.ValidationError({"tenant": ["either this or an invitation is required"]})
        if attrs.get("currency") and "invitation" in attrs:
            raise serializers.ValidationError({"currency": ["not with an invitation, which makes no tenant"]})
        return attrs


class FinishSignUpInput(StrictSerializer):
    token = serializers.CharField(max_length=100, help_text="Token of the link that was mailed.")
    password = serializers.CharField(max_length=256, trim_whitespace=False)
    tenant = serializers.CharField(
        max_length=100, required=False, help_text="Another name of the new tenant than the one given before."
    )
    currency = serializers.CharField(required=False, allow_blank=True, max_length=3, help_text=_CURRENCY)


class MailSent(serializers.Serializer[Any]):
    to = serializers.CharField(help_text="The address that gets an e-mail.")


class SignInInput(StrictSerializer):
    email = serializers.CharField(max_length=254)
    password = serializers.CharField(max_length=256, trim_whitespace=False)
    code = serializers.CharField(
        max_length=20,
        required=False,
        default="",
        help_text="Of a person with a second factor: a code of their app, or a recovery code.",
    )


class TenantInput(StrictSerializer):
    name = serializers.CharField(max_length=100)
    currency = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=3,
        help_text=_CURRENCY,
    )


class TenantChange(StrictSerializer):
    deletion_protection = serializers.BooleanField(
        required=False, help_text="true: the tenant cannot be closed."
    )
    second_factor_required = serializers.BooleanField(
        required=False,
        help_text="Owners with a second factor: true lets in only people who have one; keys are not affected.",
    )
    second_factor_grace_days = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=GRACE_DAYS_MAX,
        help_text=f"Days until that begins, for people without one; {GRACE_DAYS} unless given. 0 only if all have one.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not {"deletion_protection", "second_factor_required"} & attrs.keys():
            raise serializers.ValidationError(
                {"deletion_protection": ["this or second_factor_required is required"]}
            )
        if "second_factor_grace_days" in attrs and not attrs.get("second_factor_required", False):
            raise serializers.ValidationError(
                {"second_factor_grace_days": ["only with second_factor_required: true"]}
            )
        return attrs


class PersonShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    email = serializers.CharField()


class TenantShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    organisation = serializers.CharField(
        source="organisation.public_id",
        default=None,
        allow_null=True,
        help_text="Public id of the organisation that owns it; null: it stands alone.",
    )
    suspended = serializers.BooleanField()
    deletion_protection = serializers.BooleanField(
        source="protected", help_text="true: it cannot be closed until this is false."
    )
    second_factor_from = Moment(
        source="factors_from",
        allow_null=True,
        help_text="From when on only people with a second factor are let in; null: all people are.",
    )
    closed_at = Moment(allow_null=True, help_text="When it was closed; null while it is open.")
    purge_at = Moment(
        allow_null=True, help_text="Until when a closed tenant can be reopened; then all is deleted."
    )
    created_at = Moment()
    conditions = Condition(many=True)
    generation = serializers.IntegerField()
    delivered_generation = serializers.IntegerField()


class ChangedTenant(TenantShape, Delivery):
    pass


class SignedUp(serializers.Serializer[Any]):
    person = PersonShape()
    tenant = ChangedTenant(
        allow_null=True, help_text="null: the person was invited to an organisation, and made no tenant."
    )
    organisation = serializers.CharField(
        source="organisation.public_id",
        default=None,
        allow_null=True,
        help_text="Public id of the organisation that they were invited to.",
    )
    token = serializers.CharField(help_text="Token of the session. Shown once.")


class SignedIn(serializers.Serializer[Any]):
    person = PersonShape()
    token = serializers.CharField(help_text="Token of the session. Shown once.")
