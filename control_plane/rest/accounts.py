"""REST: a person's password, also a forgotten one, and sign-ins."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import shapes
from control_plane.rest.account_shapes import ForgottenInput, PasswordInput, ResetInput, SignInShape
from control_plane.rest.tenant_shapes import MailSent
from control_plane.rest.throttles import MailThrottle, PasswordThrottle
from control_plane.rest.views import CallerView, PublicView
from penstock.contract.errors import Forbidden
from tenants.accounts import actions, queries
from tenants.models import Person


class AccountView(CallerView):
    """About the person who calls; keys and operators have no account."""

    @property
    def person(self) -> Person:
        if self.caller.person is None:
            raise Forbidden("only a person who has signed in (`penstock login`) has an account")
        return self.caller.person

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        _ = self.person

    @property
    def token(self) -> str:
        """The token of this request's sign-in."""
        return str(self.request.auth)


class PasswordView(AccountView):
    throttle_classes = (PasswordThrottle,)

    @extend_schema(
        operation_id="password_change",
        request=PasswordInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={204: None, **shapes.problems(403)},
    )
    def post(self, request: Request) -> Response:
        """Change your password. All your other sign-ins end, and a reset link stops working."""
        given = PasswordInput(data=request.data)
        given.is_valid(raise_exception=True)
        actions.change_password(self.actor, self.person, **given.validated_data, keep=self.token)
        return Response(status=204)


class ForgottenPasswordView(PublicView):
    throttle_classes = (MailThrottle,)

    @extend_schema(
        operation_id="password_forgot",
        request=ForgottenInput,
        responses={202: MailSent, **shapes.problems()},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Have a link mailed with which a new password is chosen. The answer is the same for unknown addresses."""
        given = ForgottenInput(data=request.data)
        given.is_valid(raise_exception=True)
        email = given.validated_data["email"]
        actions.ask_for_reset(email=email, request_id=self.request_id(), source=self.source())
        return Response(MailSent({"to": email}).data, status=202)


class ResetPasswordView(PublicView):
    throttle_classes = (PasswordThrottle,)

    @extend_schema(
        operation_id="password_reset",
        request=ResetInput,
        responses={204: None, **shapes.problems(404)},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Choose a new password with the token of a link. All sign-ins end."""
        given = ResetInput(data=request.data)
        given.is_valid(raise_exception=True)
        actions.reset_password(
            given.validated_data["token"],
            new=given.validated_data["new"],
            request_id=self.request_id(),
            source=self.source(),
        )
        return Response(status=204)


class SignInsView(AccountView):
    @extend_schema(
        operation_id="sign_ins_list",
        parameters=shapes.PAGING,
        responses={200: shapes.listed("SignIn", SignInShape(many=True)), **shapes.problems(403)},
    )
    def get(self, request: Request) -> Response:
        """Your sign-ins."""
        rows = queries.sign_ins(self.person)
        return self.paged(rows, SignInShape, context={"token": self.token})

    @extend_schema(
        operation_id="sign_ins_end_others", request=None, responses={204: None, **shapes.problems(403)}
    )
    def delete(self, request: Request) -> Response:
        """End all your sign-ins except the one of this request."""
        actions.end_other_sign_ins(self.actor, self.person, keep=self.token)
        return Response(status=204)


class SignInView(AccountView):
    @extend_schema(
        operation_id="sign_ins_end", request=None, responses={204: None, **shapes.problems(403, 404)}
    )
    def delete(self, request: Request, sign_in: str) -> Response:
        """End one of your sign-ins."""
        actions.end_sign_in(self.actor, self.person, sign_in)
        return Response(status=204)
