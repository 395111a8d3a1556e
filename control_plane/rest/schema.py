"""How the OpenAPI document describes authentication and dry runs."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

from control_plane.api.shapes import DRY_RUN, DryRun


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "control_plane.rest.authentication.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key (penstock_…), a session's token (pss_…) or an operator's token (pso_…).",
        }


class DryRunSchema(AutoSchema):
    """An operation that a view lists in `dry_run` takes the parameter, and may answer what it would change."""

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        if operation is None or self.method not in getattr(self.view, "dry_run", ()):
            return operation
        parameters = [*operation.get("parameters", ()), DRY_RUN]
        operation["parameters"] = sorted(parameters, key=lambda one: (one["in"], one["name"]))
        shape = self.resolve_serializer(DryRun, "response").ref
        answer = operation["responses"].setdefault("200", {"description": "", "content": {}})
        known = answer["content"].get("application/json")
        answer["content"]["application/json"] = {
            "schema": shape if known is None else {"oneOf": [known["schema"], shape]}
        }
        return operation
