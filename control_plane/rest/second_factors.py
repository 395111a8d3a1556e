"""REST: the second factors of the person who calls. Passkeys are added in a browser; codes of an app here too."""

from allauth.mfa.adapter import get_adapter
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from control_plane.api import etags, shapes
from control_plane.rest.account_shapes import (
    AddCodesInput,
    AppSecret,
    FactorShape,
    ProofInput,
    RecoveryCodes,
    RecoveryCodesLeft,
)
from control_plane.rest.accounts import AccountView
from control_plane.rest.throttles import PasswordThrottle
from tenants.factors import actions, queries
from tenants.sign_in.confirming import confirm


class FactorsView(AccountView):
    @extend_schema(
        operation_id="second_factors_list",
        parameters=shapes.PAGING,
        responses={200: shapes.listed("SecondFactor", FactorShape(many=True)), **shapes.problems(403)},
    )
    def get(self, request: Request) -> Response:
        """Your second factors: codes of an app and passkeys."""
        return self.paged(queries.factors(self.person), FactorShape)


class FactorView(AccountView):
    @extend_schema(
        operation_id="second_factors_get",
        parameters=[shapes.ETAG],
        responses={200: FactorShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, factor: str) -> Response:
        """One of your second factors."""
        row = queries.factor_of(self.person, factor)
        return Response(
            FactorShape(row).data, headers={"ETag": etags.of_content(row.pk, queries.name_of(row))}
        )


class FactorRemoveView(AccountView):
    throttle_classes = (PasswordThrottle,)

    @extend_schema(
        operation_id="second_factors_remove",
        request=ProofInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={204: None, **shapes.problems(403, 404)},
    )
    def post(self, request: Request, factor: str) -> Response:
        """Remove a second factor. With the last one the recovery codes go too.

        The last one stays while a tenant of yours requires a second factor.
        """
        row = queries.factor_of(self.person, factor)
        given = ProofInput(data=request.data)
        given.is_valid(raise_exception=True)
        actions.check_removal(self.person, row.pk)
        confirm(self.actor, self.person, **given.proof, token=self.token)
        actions.remove(self.actor, self.person, row.pk)
        return Response(status=204)


class AppCodesView(AccountView):
    @extend_schema(
        operation_id="second_factors_codes_begin",
        request=None,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: AppSecret, **shapes.problems(403, 409)},
    )
    def post(self, request: Request) -> Response:
        """Begin to add codes of an app: the secret that the app takes. It counts once `confirm` gets its first code.

        Within 15 minutes the same sign-in gets the same answer again. Another one gets a new secret, and the one before
        counts no more.
        """
        secret = actions.begin_totp(self.person, token=self.token)
        uri = get_adapter().build_totp_url(self.person, secret)
        return Response(AppSecret({"secret": secret, "uri": uri}).data)


class AppCodesConfirmView(AccountView):
    throttle_classes = (PasswordThrottle,)

    @extend_schema(
        operation_id="second_factors_codes_confirm",
        request=AddCodesInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: RecoveryCodes, **shapes.problems(403, 409)},
    )
    def post(self, request: Request) -> Response:
        """Add codes of an app by its present code. Signing in asks for one from then on.

        With your first second factor all your other sign-ins end.
        The answer has ten recovery codes, shown once; none if you had some.
        """
        given = AddCodesInput(data=request.data)
        given.is_valid(raise_exception=True)
        code = given.validated_data["code"]
        actions.check_totp(self.person, code=code, token=self.token)
        confirm(self.actor, self.person, **given.proof, token=self.token)
        codes = actions.add_totp(self.actor, self.person, code=code, token=self.token)
        return Response(RecoveryCodes({"recovery_codes": codes}).data)


class RecoveryCodesView(AccountView):
    def get_throttles(self) -> list[BaseThrottle]:
        """POST takes a password."""
        return [PasswordThrottle()] if self.request.method == "POST" else super().get_throttles()

    @extend_schema(
        operation_id="recovery_codes_get",
        responses={200: RecoveryCodesLeft, **shapes.problems(403)},
    )
    def get(self, request: Request) -> Response:
        """How many of your recovery codes are left."""
        return Response(RecoveryCodesLeft({"left": queries.recovery_codes_left(self.person)}).data)

    @extend_schema(
        operation_id="recovery_codes_renew",
        request=ProofInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: RecoveryCodes, **shapes.problems(403)},
    )
    def post(self, request: Request) -> Response:
        """Make ten new recovery codes, shown once. All earlier ones are refused."""
        given = ProofInput(data=request.data)
        given.is_valid(raise_exception=True)
        confirm(self.actor, self.person, **given.proof, token=self.token)
        codes = actions.renew_recovery_codes(self.actor, self.person)
        return Response(RecoveryCodes({"recovery_codes": codes}).data)
