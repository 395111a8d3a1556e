"""REST: who calls, until when, and in which tenants."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import shapes
from control_plane.api.shapes import Moment
from control_plane.rest.views import CallerView
from tenants import queries
from tenants.accounts.queries import sign_in_of

_TENANTS_MAX = 100
"""So many are shown; `GET /v1/tenants` has all, page after page."""


class RoleShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="tenant.public_id")
    name = serializers.CharField(source="tenant.name")
    role = serializers.CharField(
        allow_null=True, help_text="The role there of the person, or of the maker of the key; null: none."
    )


class WhoAmI(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="`person`, `key` or `operator`.")
    id = serializers.CharField()
    name = serializers.CharField(help_text="E-mail address of the person, name of the key or operator.")
    expires_at = Moment(allow_null=True, help_text="When the credential ends by itself; null: it does not.")
    tenants = RoleShape(many=True, help_text="The first 100 of the caller; an operator has none.")
    tenants_count = serializers.IntegerField()


class WhoAmIView(CallerView):
    @extend_schema(operation_id="whoami", responses={200: WhoAmI, **shapes.problems()})
    def get(self, request: Request) -> Response:
        """Who calls with this credential, until when, and the tenants with the role in each."""
        return Response(WhoAmI(self._shown(str(request.auth))).data)

    def _shown(self, token: str) -> dict[str, Any]:
        caller = self.caller
        expires_at = None
        tenants: list[Any] = []
        if caller.person is not None:
            kind, name = "person", caller.person.email
            sign_in = sign_in_of(token)
            expires_at = None if sign_in is None else sign_in.expires_at
            tenants = [
                {"tenant": belonging.tenant, "role": belonging.role.value}
                for belonging in queries.belongings(caller.person)
            ]
        elif caller.key is not None:
            kind, name, expires_at = "key", caller.key.name, caller.key.expires_at
            role = None if caller.maker_role is None else caller.maker_role.value
            tenants = [{"tenant": caller.key.tenant, "role": role}]
        else:
            kind, name = "operator", "" if caller.operator is None else caller.operator.name
        return {
            "kind": kind,
            "id": self.actor.id,
            "name": name,
            "expires_at": expires_at,
            "tenants": tenants[:_TENANTS_MAX],
            "tenants_count": len(tenants),
        }
