"""Shapes of people's own accounts: sign-ins, passwords, addresses and second factors."""

from typing import Any

from rest_framework import serializers

from control_plane.api.shapes import Moment, StrictSerializer
from tenants.accounts import queries
from tenants.factors import queries as factors
from tenants.models import Session


class PasswordInput(StrictSerializer):
    present = serializers.CharField(max_length=256, trim_whitespace=False, help_text="Your present password.")
    new = serializers.CharField(max_length=256, trim_whitespace=False)


class ForgottenInput(StrictSerializer):
    email = serializers.CharField(max_length=254)


class ResetInput(StrictSerializer):
    token = serializers.CharField(max_length=100, help_text="Token of the link that was mailed.")
    new = serializers.CharField(max_length=256, trim_whitespace=False)


class ProofInput(StrictSerializer):
    present = serializers.CharField(
        max_length=256,
        trim_whitespace=False,
        required=False,
        allow_blank=True,
        default="",
        help_text="Your present password. A person without one has to have signed in within 15 minutes.",
    )
    present_code = serializers.CharField(
        max_length=20,
        required=False,
        allow_blank=True,
        default="",
        help_text="Of a person with a second factor who signed in more than 15 minutes ago: a code of their app, or a "
        "recovery code.",
    )

    @property
    def proof(self) -> dict[str, str]:
        """For `tenants.sign_in.confirming.confirm`."""
        return {"present": self.validated_data["present"], "code": self.validated_data["present_code"]}


class AddressChangeInput(ProofInput):
    email = serializers.CharField(max_length=254, help_text="The address that you want to have.")


class LinkInput(StrictSerializer):
    token = serializers.CharField(max_length=100, help_text="Token of the link that was mailed.")


class AddressChangeShape(serializers.Serializer[Any]):
    email = serializers.CharField(source="after", help_text="The address that got the link.")
    expires_at = Moment(help_text="Until when the link works.")


class AddressShape(serializers.Serializer[Any]):
    email = serializers.CharField()
    verified = serializers.BooleanField(help_text="true: a link that was mailed to it was used.")
    change = AddressChangeShape(
        allow_null=True, help_text="The change that waits for its link; null: there is none."
    )


class TakenBack(serializers.Serializer[Any]):
    email = serializers.CharField(help_text="The address of the account again.")
    token = serializers.CharField(help_text="Of a link to choose a password, valid for an hour. Shown once.")


# Of a row of allauth's.
class FactorShape(serializers.Serializer[Any]):
    id = serializers.SerializerMethodField()
    kind = serializers.SerializerMethodField(help_text="`codes` of an app, or `passkey`.")
    name = serializers.SerializerMethodField()
    created_at = Moment()
    last_used_at = Moment(allow_null=True)

    def get_id(self, row: Any) -> str:
        return factors.public_id_of(row)

    def get_kind(self, row: Any) -> str:
        return "codes" if row.type == factors.Type.TOTP else "passkey"

    def get_name(self, row: Any) -> str:
        return factors.name_of(row)


class AppSecret(serializers.Serializer[Any]):
    secret = serializers.CharField(help_text="In base32, as authenticator apps take it.")
    uri = serializers.CharField(help_text="The same as otpauth://, which apps read as a QR code.")


class AddCodesInput(ProofInput):
    code = serializers.CharField(max_length=10, help_text="The present code of the app that is added.")


class RecoveryCodes(serializers.Serializer[Any]):
    recovery_codes = serializers.ListField(child=serializers.CharField(), help_text="Shown once.")


class RecoveryCodesLeft(serializers.Serializer[Any]):
    left = serializers.IntegerField()


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
