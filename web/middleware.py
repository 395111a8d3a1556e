"""What every page of the console carries, and how a refusal becomes a page."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_cache_control

from penstock.contract.errors import PenstockError
from web import errors, notices
from web.assets import digest_of

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


YEAR = "public, max-age=31536000, immutable"


class Delivery(GZipMiddleware):
    """Pages and static files travel compressed; a static file whose address names its content is kept for a year.

    Compressed pages vary in length by chance (Django's `max_random_bytes`) and have a fresh mask on each form's token,
    so that lengths tell nothing of it. Programs' answers stay as they are.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not is_console(request):
            return response
        if request.path.startswith(settings.STATIC_URL) and response.status_code in (200, 304):
            wanted = request.GET.get("v")
            if wanted is not None and wanted == digest_of(request.path.removeprefix(settings.STATIC_URL)):
                response.headers["Cache-Control"] = YEAR
        return super().process_response(request, response)


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
