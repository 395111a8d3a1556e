"""REST: the e-mail address of the person who calls, and its change."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from control_plane.api import etags, shapes
from control_plane.rest.account_shapes import (
    AddressChangeInput,
    AddressShape,
    LinkInput,
    TakenBack,
)
from control_plane.rest.accounts import AccountView
from control_plane.rest.throttles import MailThrottle, PasswordThrottle
from control_plane.rest.views import PublicView
from tenants.accounts import address_actions as actions
from tenants.accounts import address_queries as queries
from tenants.addresses.queries import is_proved
from tenants.models import Person
from tenants.sign_in.confirming import confirm


class AddressView(AccountView):
    @extend_schema(
        operation_id="email_get",
        parameters=[shapes.ETAG],
        responses={200: AddressShape, **shapes.problems(403)},
    )
    def get(self, request: Request) -> Response:
        """Your e-mail address, and the change of it that waits for its link."""
        return _shown(self.person)


class AddressChangeView(AccountView):
    conditional = frozenset({"POST", "DELETE"})

    def get_throttles(self) -> list[BaseThrottle]:
        """POST takes a password, and sends an e-mail."""
        return (
            [PasswordThrottle(), MailThrottle()] if self.request.method == "POST" else super().get_throttles()
        )

    @extend_schema(
        operation_id="email_change",
        request=AddressChangeInput,
        parameters=[shapes.IDEMPOTENCY, shapes.IF_MATCH, shapes.ETAG],
        responses={200: AddressShape, **shapes.problems(403, 412)},
    )
    def post(self, request: Request) -> Response:
        """Ask for another e-mail address. It gets a link; your address stays until you use it, signed in.

        The answer is the same for an address that has an account. An earlier change that waits ends.
        """
        given = AddressChangeInput(data=request.data)
        given.is_valid(raise_exception=True)
        email = given.validated_data["email"]
        etags.check(request, self._current())
        actions.check_change(self.person, email)
        confirm(self.actor, self.person, **given.proof, token=self.token)
        with etags.unchanged_within(request, self.person, self._current):
            actions.ask_to_change(self.actor, self.person, email=email)
        return _shown(self.person)

    @extend_schema(
        operation_id="email_change_withdraw",
        request=None,
        parameters=[shapes.IF_MATCH],
        responses={204: None, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request) -> Response:
        """Withdraw the change that waits. Its link stops working."""
        with etags.unchanged_within(request, self.person, self._current):
            actions.withdraw(self.actor, self.person)
        return Response(status=204)

    def _current(self) -> str:
        return _tag(Person.objects.get(pk=self.person.pk))


class AddressConfirmView(AccountView):
    throttle_classes = (PasswordThrottle,)

    @extend_schema(
        operation_id="email_confirm",
        request=LinkInput,
        parameters=[shapes.IDEMPOTENCY, shapes.ETAG],
        responses={200: AddressShape, **shapes.problems(403, 404, 409)},
    )
    def post(self, request: Request) -> Response:
        """Use the link that was mailed to the new address, as the person who asked. All your other sign-ins end.

        The address before gets a link that takes the change back within 7 days.
        """
        given = LinkInput(data=request.data)
        given.is_valid(raise_exception=True)
        actions.confirm_change(self.actor, self.person, given.validated_data["token"], keep=self.token)
        return _shown(self.person)


class AddressTakeBackView(PublicView):
    throttle_classes = (PasswordThrottle,)

    @extend_schema(
        operation_id="email_take_back",
        request=LinkInput,
        responses={200: TakenBack, **shapes.problems(404)},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Take a change of the address back, with the link that the address before got. All sign-ins end.

        The password counts no more, and no provider opens the account until you link it again: choose a password with
        the token of the answer, at `password/reset`.
        """
        given = LinkInput(data=request.data)
        given.is_valid(raise_exception=True)
        person, token = actions.take_back(
            given.validated_data["token"], request_id=self.request_id(), source=self.source()
        )
        return Response(TakenBack({"email": person.email, "token": token}).data)


def _shown(person: Person) -> Response:
    found = {"email": person.email, "verified": is_proved(person), "change": queries.pending(person)}
    return Response(AddressShape(found).data, headers={"ETag": _tag(person)})


def _tag(person: Person) -> str:
    waiting = queries.pending(person)
    return etags.of_content(person.email, None if waiting is None else waiting.public_id)
