"""Variables of every template: the person, the tenant, what they may do there, and the notice of the last action."""

from typing import Any

from django.http import HttpRequest

from control_plane import config
from web import notices, sessions


def console(request: HttpRequest) -> dict[str, Any]:
    """Django's context processor of the console."""
    access = getattr(request, "access", None)
    return {
        "access": access,
        "tenant": access.tenant if access is not None else None,
        "rights": access.rights if access is not None else {},
        "person": sessions.person_of(request),
        "operator": getattr(request, "operator", None),
        "theme": sessions.theme_of(request),
        "notice": notices.take(request),
        "environment": config.current().environment,
    }
