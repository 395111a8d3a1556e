"""Shapes of people and invitations in REST answers, and of their input."""

from typing import Any

from rest_framework import serializers

from control_plane.api.shapes import StrictSerializer
from tenants.models import Invitation, Membership
from tenants.roles import Role

_ROLES = [role.value for role in Role]


class MemberShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    email = serializers.CharField()
    role = serializers.ChoiceField(choices=_ROLES)
    joined_at = serializers.DateTimeField()


class RoleInput(StrictSerializer):
    role = serializers.ChoiceField(choices=_ROLES)


class InvitationInput(StrictSerializer):
    email = serializers.CharField(max_length=254)
    role = serializers.ChoiceField(choices=_ROLES)


class InvitationShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    email = serializers.CharField()
    role = serializers.ChoiceField(choices=_ROLES)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class InvitationMade(InvitationShape):
    token = serializers.CharField(help_text="Shown once; whoever is invited joins with it.")
    link = serializers.CharField(help_text="The console's page for it; shown once.")


class JoinInput(StrictSerializer):
    token = serializers.CharField(max_length=100, help_text="Of the invitation.")


class Joined(MemberShape):
    tenant = serializers.CharField(help_text="Public id of the tenant that was joined.")


def show_member(row: Membership) -> dict[str, Any]:
    return {
        "id": row.person.public_id,
        "email": row.person.email,
        "role": row.role,
        "joined_at": row.created_at.isoformat(),
    }


def show_invitation(row: Invitation) -> dict[str, Any]:
    return {
        "id": row.public_id,
        "email": row.email,
        "role": row.role,
        "created_at": row.created_at.isoformat(),
        "expires_at": row.expires_at.isoformat(),
    }
