"""The address that Stripe calls. It is no part of REST: Stripe has a signature, and no credential of ours."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from payments import inbox
from payments.stripe_adapter import webhook_secret
from penstock.contract.errors import ConfigurationError, Forbidden, InvalidRequest


@csrf_exempt  # the signature says who calls
@require_POST
def stripe_webhook(request: HttpRequest) -> HttpResponse:
    """Store a signed event; the worker processes it. One that is stored already is a success."""
    length = request.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) > inbox.BODY_BYTES_MAX:
        return JsonResponse({"detail": f"body: at most {inbox.BODY_BYTES_MAX} bytes allowed"}, status=413)
    try:
        body = request.read(inbox.BODY_BYTES_MAX + 1)
        stored = inbox.receive(
            body, request.headers.get("Stripe-Signature", ""), webhook_secret(), timezone.now()
        )
    except Forbidden as refused:
        return JsonResponse({"detail": refused.message}, status=403)
    except InvalidRequest as refused:
        return JsonResponse({"detail": refused.message}, status=400)
    except ConfigurationError:
        # Stripe sends it again for days.
        return JsonResponse({"detail": "the webhook's secret cannot be read"}, status=503)
    return JsonResponse({"stored": stored})
