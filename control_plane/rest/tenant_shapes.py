"""Shapes of people and tenants, and of what is asked of them."""

from typing import Any

from rest_framework import serializers

from control_plane.api.shapes import Condition, Moment, StrictSerializer, Told


class SignUpInput(StrictSerializer):
    email = serializers.CharField(max_length=254)
    password = serializers.CharField(max_length=256, trim_whitespace=False)
    tenant = serializers.CharField(
        max_length=100, required=False, help_text="Name of the tenant that is made; not with an invitation."
    )
    invitation = serializers.CharField(
        max_length=100,
        required=False,
        help_text="Token of an invitation: its tenant is joined, none is made.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("tenant" in attrs) == ("invitation" in attrs):
            raise serializers.ValidationError({"tenant": ["either a tenant's name or an invitation"]})
        return attrs


class SignInInput(StrictSerializer):
    email = serializers.CharField(max_length=254)
    password = serializers.CharField(max_length=256, trim_whitespace=False)


class TenantInput(StrictSerializer):
    name = serializers.CharField(max_length=100)


class PersonShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    email = serializers.CharField()


class TenantShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    suspended = serializers.BooleanField()
    created_at = Moment()
    conditions = Condition(many=True)
    generation = serializers.IntegerField()
    delivered_generation = serializers.IntegerField()


class TenantTold(TenantShape, Told):
    pass


class SignedUp(serializers.Serializer[Any]):
    person = PersonShape()
    tenant = TenantTold()
    token = serializers.CharField(help_text="Of the session; shown once.")


class SignedIn(serializers.Serializer[Any]):
    person = PersonShape()
    token = serializers.CharField(help_text="Of the session; shown once.")
