"""Shapes of people and tenants, and of requests about them."""

from typing import Any

from rest_framework import serializers

from control_plane.api.shapes import Condition, Delivery, Moment, StrictSerializer


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
        help_text="Token of an invitation: the person joins its tenant, and no tenant is made.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("tenant" in attrs) == ("invitation" in attrs):
            raise serializers.ValidationError({"tenant": ["either this or an invitation is required"]})
        return attrs


class FinishSignUpInput(StrictSerializer):
    token = serializers.CharField(max_length=100, help_text="Token of the link that was mailed.")
    password = serializers.CharField(max_length=256, trim_whitespace=False)
    tenant = serializers.CharField(
        max_length=100, required=False, help_text="Another name of the new tenant than the one given before."
    )


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


class TenantChange(StrictSerializer):
    deletion_protection = serializers.BooleanField(help_text="true: the tenant cannot be closed.")


class PersonShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    email = serializers.CharField()


class TenantShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    suspended = serializers.BooleanField()
    deletion_protection = serializers.BooleanField(
        source="protected", help_text="true: it cannot be closed until this is false."
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
    tenant = ChangedTenant()
    token = serializers.CharField(help_text="Token of the session. Shown once.")


class SignedIn(serializers.Serializer[Any]):
    person = PersonShape()
    token = serializers.CharField(help_text="Token of the session. Shown once.")
