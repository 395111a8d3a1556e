"""Shapes of organisations, their members and invitations, and of requests about them."""

from typing import Any

from rest_framework import serializers

from control_plane.api.shapes import Moment, StrictSerializer
from control_plane.rest.people_shapes import InvitationMade, InvitationShape
from tenants.roles import OrganisationRole

ROLES = [role.value for role in OrganisationRole]
_DISPLAY_NAME = "What people call it; letters of one alphabet. It is not unique, the name is."


class OrganisationInput(StrictSerializer):
    name = serializers.CharField(max_length=100)
    display_name = serializers.CharField(
        max_length=200, required=False, help_text=f"{_DISPLAY_NAME} The name unless given."
    )


class OrganisationChange(StrictSerializer):
    name = serializers.CharField(max_length=100, required=False)
    display_name = serializers.CharField(max_length=200, required=False, help_text=_DISPLAY_NAME)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise serializers.ValidationError({"name": ["this or display_name is required"]})
        return attrs


class OrganisationShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    display_name = serializers.CharField(help_text=_DISPLAY_NAME)
    created_at = Moment()


# The rows are annotated with the role.
class OwnOrganisationShape(OrganisationShape):
    role = serializers.ChoiceField(choices=ROLES, help_text="What you are in it.")


# The rows are annotated with both counts.
class AnyOrganisationShape(OrganisationShape):
    members = serializers.IntegerField(source="members_count", help_text="How many people belong to it.")
    tenants = serializers.IntegerField(source="tenants_count", help_text="How many tenants it owns.")


class OrganisationMemberShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="person.public_id")
    email = serializers.CharField(source="person.email")
    role = serializers.ChoiceField(choices=ROLES)
    joined_at = Moment(source="created_at")


class OrganisationRoleInput(StrictSerializer):
    role = serializers.ChoiceField(choices=ROLES)


class OrganisationInvitationInput(StrictSerializer):
    email = serializers.CharField(max_length=254)
    role = serializers.ChoiceField(choices=ROLES)


class OrganisationInvitationShape(InvitationShape):
    role = serializers.ChoiceField(choices=ROLES)


class OrganisationInvitationMade(InvitationMade):
    role = serializers.ChoiceField(choices=ROLES)
