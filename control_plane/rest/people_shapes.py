"""Shapes of people and invitations, and of requests about them."""

from typing import Any
from urllib.parse import quote

from rest_framework import serializers

from control_plane import config
from control_plane.api.shapes import Moment, StrictSerializer
from tenants.factors.queries import are_asked_for
from tenants.models import Invitation, Membership, OrganisationInvitation, OrganisationMember
from tenants.roles import Role

ROLES = [role.value for role in Role]


# The context has `factors`: whether the reader may see who has a second factor.
class MemberShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="person.public_id")
    email = serializers.CharField(source="person.email")
    role = serializers.ChoiceField(choices=ROLES)
    joined_at = Moment(source="created_at")
    second_factor = serializers.SerializerMethodField(
        help_text="Whether their sign-in asks for a second factor; null for readers who may not read the audit log."
    )

    def get_second_factor(self, row: Membership | OrganisationMember) -> bool | None:
        if not self.context.get("factors", False):
            return None
        known = getattr(row, "has_factor", None)
        return bool(are_asked_for(row.person) if known is None else known)


class RoleInput(StrictSerializer):
    role = serializers.ChoiceField(choices=ROLES)


class InvitationInput(StrictSerializer):
    email = serializers.CharField(max_length=254)
    role = serializers.ChoiceField(choices=ROLES)


class InvitationShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    email = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES)
    created_at = Moment()
    expires_at = Moment()


# The context has the invitation's `token`, which is stored nowhere.
class InvitationMade(InvitationShape):
    token = serializers.SerializerMethodField(
        help_text="The person who is invited joins with it. Shown once; null if the service has a mail server, "
        "which brings it to that person alone."
    )
    link = serializers.SerializerMethodField(
        help_text="The console's page for the invitation. Shown once, or null like the token."
    )

    def get_token(self, row: Invitation | OrganisationInvitation) -> str | None:
        return None if config.current().mail is not None else str(self.context["token"])

    def get_link(self, row: Invitation | OrganisationInvitation) -> str | None:
        return None if config.current().mail is not None else link_of(self.context["token"])


class JoinInput(StrictSerializer):
    token = serializers.CharField(max_length=100, help_text="Token of the invitation.")


class Joined(MemberShape):
    tenant = serializers.CharField(
        source="tenant.public_id",
        default=None,
        allow_null=True,
        help_text="Public id of the tenant; null: it is an organisation.",
    )
    organisation = serializers.CharField(
        source="organisation.public_id",
        default=None,
        allow_null=True,
        help_text="Public id of the organisation; null: it is a tenant.",
    )


def link_of(token: str) -> str:
    """The address of the console's page for an invitation."""
    return f"{config.current().public_url.rstrip('/')}/join/{quote(token)}"
