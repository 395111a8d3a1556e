"""What every template knows: who is here, in which tenant, what they may do, and what was just done."""

from typing import Any

from django.http import HttpRequest

from control_plane import config
from web import notices, sessions


def console(request: HttpRequest) -> dict[str, Any]:
    """Django's context processor of the console."""
    place = getattr(request, "place", None)
    return {
        "place": place,
        "tenant": place.tenant if place is not None else None,
        "rights": place.rights if place is not None else {},
        "person": sessions.person_of(request),
        "operator": getattr(request, "operator", None),
        "theme": sessions.theme_of(request),
        "notice": notices.take(request),
        "environment": config.current().environment,
    }
