"""Shapes of sign-ins in REST answers, and of a new password."""

from typing import Any

from rest_framework import serializers

from control_plane.api.shapes import StrictSerializer
from tenants.models import Session


class PasswordInput(StrictSerializer):
    present = serializers.CharField(
        max_length=256, trim_whitespace=False, help_text="The password until now."
    )
    new = serializers.CharField(max_length=256, trim_whitespace=False)


class SignInShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    address = serializers.CharField(help_text="The address that it came from; empty if it is not known.")
    browser = serializers.CharField(help_text="What the browser or program calls itself.")
    current = serializers.BooleanField(help_text="Whether it is the one of this request.")


def show_sign_in(row: Session, *, current: bool) -> dict[str, Any]:
    return {
        "id": row.public_id,
        "created_at": row.created_at.isoformat(),
        "expires_at": row.expires_at.isoformat(),
        "address": row.source,
        "browser": row.browser,
        "current": current,
    }
