"""What every page of the console carries, and how a refusal becomes a page."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_cache_control

from penstock.contract.errors import PenstockError
from web import errors, notices

POLICY = "; ".join(
    (
        "default-src 'self'",
        "base-uri 'none'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "object-src 'none'",
    )
)
"""No inline script or style, no other host."""
REST = ("/v1/", "/healthz", "/readyz", "/metrics")


def is_console(request: HttpRequest) -> bool:
    """Whether people look at it: everything that is not for programs."""
    return not request.path.startswith(REST)


class Console:
    """The content security policy; nothing of a tenant in caches; errors as pages."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if is_console(request):
            notices.forget_shown(request, response)
            response.headers["Content-Security-Policy"] = POLICY
            response.headers.setdefault("X-Frame-Options", "DENY")
            if not request.path.startswith("/static/"):
                patch_cache_control(response, no_store=True, private=True)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, PenstockError) and is_console(request):
            return errors.refused(request, exception)
        return None
