"""Headers of every page of the console, and pages for refusals."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_cache_control

from control_plane.api.addresses import for_programs
from penstock.contract.errors import Forbidden, PenstockError
from web import errors, notices, tenant_access
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
YEAR = "public, max-age=31536000, immutable"


class Delivery(GZipMiddleware):
    """Compresses pages and static files. Browsers cache a static file whose address names its content for a year.

    The length of a compressed page is randomized (Django's `max_random_bytes`) and each form's token has a new mask, so
    that lengths reveal nothing of it. Answers to programs are not changed.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if for_programs(request.path):
            return response
        if request.path.startswith(settings.STATIC_URL) and response.status_code in (200, 304):
            wanted = request.GET.get("v")
            if wanted is not None and wanted == digest_of(request.path.removeprefix(settings.STATIC_URL)):
                response.headers["Cache-Control"] = YEAR
        return super().process_response(request, response)


class Console:
    """Sets the content security policy, keeps pages out of caches, and shows errors as pages."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if not for_programs(request.path):
            notices.forget_shown(request, response)
            response.headers["Content-Security-Policy"] = POLICY
            response.headers.setdefault("X-Frame-Options", "DENY")
            if not request.path.startswith("/static/"):
                patch_cache_control(response, no_store=True, private=True)
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, PenstockError) and not for_programs(request.path):
            if isinstance(exception, Forbidden):
                tenant_access.count_refusal(request)
            return errors.refused(request, exception)
        return None
