"""Idempotency keys: a POST that is sent again with its key gets the first answer and does nothing.

A secret that an answer showed once is not stored. A repetition of such a request is refused, and the refusal names the
object that the first request made.
"""

from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from control_plane.api.models import IdempotentRequest
from control_plane.keyed_digests import keyed_digest
from penstock.contract.errors import AlreadyExists, InvalidRequest, Throttled
from penstock.rules.names import check_printable_name

HEADER = "Idempotency-Key"
KEY_LENGTH_MAX = 255
KEPT = timedelta(hours=24)
ABANDONED = timedelta(seconds=60)
"""A request without an answer after this time has failed; it may be sent again."""
SECRETS = ("key", "token", "link", "secret", "uri", "recovery_codes")
"""Fields of an answer that, when they are text or a list, are shown once."""

_FORGOTTEN_MAX = 100


def begin(caller: str, key: str, *, method: str, path: str, body: bytes) -> IdempotentRequest:
    """Store the request. If it was answered before, the result has a `status`.

    Raises `InvalidRequest` (another request had this key), `Throttled` (the first one is still running),
    `AlreadyExists` (it was done, and its answer showed a secret).
    """
    check_printable_name(HEADER, key, KEY_LENGTH_MAX)
    # A body may hold a password. With another `secret_key` a repeated request counts as another one.
    digest = keyed_digest("idempotency", b"\n".join((method.encode(), path.encode(), body)))
    now = timezone.now()
    _forget()
    try:
        with transaction.atomic():
            return IdempotentRequest.objects.create(caller=caller, key=key, digest=digest, started_at=now)
    except IntegrityError:
        pass
    with transaction.atomic():
        first = (
            IdempotentRequest.objects.select_for_update(no_key=True).filter(caller=caller, key=key).first()
        )
        if first is None:
            raise Throttled(f"{HEADER}: the first request with this key has just ended; send it again")
        if now - first.started_at >= KEPT:
            # Others were older, and more of them than one request removes.
            first.digest, first.started_at, first.status, first.answer = digest, now, None, None
            first.save(update_fields=["digest", "started_at", "status", "answer"])
            return first
        if first.digest != digest:
            raise InvalidRequest(f"{HEADER}: another request has used this key")
        if first.status is None:
            if now - first.started_at < ABANDONED:
                raise Throttled(f"{HEADER}: the first request with this key is still running")
            first.started_at = now
            first.save(update_fields=["started_at"])
        elif isinstance(first.answer, dict) and any(first.answer.get(name, "") is None for name in SECRETS):
            raise AlreadyExists(
                f"{first.answer.get('id', 'the object')} was made by the first request with this key; its secret is "
                "shown only once: if you have lost it, revoke it and make another"
            )
        return first


def finish(request: IdempotentRequest, status: int, answer: Any) -> None:
    """Store the answer. A fault is not stored: the request may be sent again."""
    if status >= 500 or status == 429:
        request.delete()
        return
    if isinstance(answer, dict):
        answer = {
            name: None if name in SECRETS and isinstance(value, str | list) else value
            for name, value in answer.items()
        }
    request.status, request.answer = status, answer
    request.save(update_fields=["status", "answer"])


def _forget() -> None:
    """Remove the oldest of all callers that are kept no longer: a key that was revoked sends no further request."""
    old = IdempotentRequest.objects.filter(started_at__lt=timezone.now() - KEPT).order_by("started_at")
    with transaction.atomic():
        # Another request that removes the same ones is not waited for.
        found = old.select_for_update(no_key=True, skip_locked=True).values_list("pk", flat=True)
        pks = list(found[:_FORGOTTEN_MAX])
        if pks:
            IdempotentRequest.objects.filter(pk__in=pks).delete()
