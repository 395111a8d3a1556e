"""Shapes of sign-ins, and of a new password."""

from typing import Any

from rest_framework import serializers

from control_plane.api.shapes import Moment, StrictSerializer
from tenants.accounts import queries
from tenants.models import Session


class PasswordInput(StrictSerializer):
    present = serializers.CharField(max_length=256, trim_whitespace=False, help_text="Your present password.")
    new = serializers.CharField(max_length=256, trim_whitespace=False)


class ForgottenInput(StrictSerializer):
    email = serializers.CharField(max_length=254)


class ResetInput(StrictSerializer):
    token = serializers.CharField(max_length=100, help_text="Token of the link that was mailed.")
    new = serializers.CharField(max_length=256, trim_whitespace=False)


# Of a session. The context has the `token` of this request.
class SignInShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    created_at = Moment()
    expires_at = Moment()
    address = serializers.CharField(
        source="source", help_text="The client's IP address; empty if it is not known."
    )
    browser = serializers.CharField(help_text="The name that the browser or program sends (User-Agent).")
    current = serializers.SerializerMethodField(help_text="true: it is the sign-in of this request.")

    def get_current(self, row: Session) -> bool:
        return queries.is_of_token(row, self.context["token"])
