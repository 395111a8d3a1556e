"""Idempotency keys: a POST sent again with its key gets the first answer and does nothing.

A secret that an answer showed once is not kept, so the repetition of such a request is refused with what was made.
"""

import hashlib
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from control_plane.api.models import IdempotentRequest
from penstock.contract.errors import AlreadyExists, InvalidRequest, Throttled

HEADER = "Idempotency-Key"
KEY_LENGTH_MAX = 255
KEPT = timedelta(hours=24)
ABANDONED = timedelta(seconds=60)
"""A request that has no answer after this died; another may take its place."""
SECRETS = ("key", "token", "link")
"""Fields of an answer that, when they are text, are shown once."""

_FORGOTTEN_MAX = 100


def begin(caller: str, key: str, *, method: str, path: str, body: bytes) -> IdempotentRequest:
    """Note the request; if it has an answer already, `status` says so.

    Raises `InvalidRequest` (another request had this key), `Throttled` (the first is still at work),
    `AlreadyExists` (it was done, and its answer showed a secret).
    """
    if not 1 <= len(key) <= KEY_LENGTH_MAX or not key.isprintable():
        raise InvalidRequest(f"{HEADER}: 1 to {KEY_LENGTH_MAX} printable characters required")
    digest = hashlib.sha256(b"\n".join((method.encode(), path.encode(), body))).hexdigest()
    now = timezone.now()
    _forget(caller)
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
        if first.digest != digest:
            raise InvalidRequest(f"{HEADER}: this key came with another request before")
        if first.status is None:
            if now - first.started_at < ABANDONED:
                raise Throttled(f"{HEADER}: the first request with this key is still at work")
            first.started_at = now
            first.save(update_fields=["started_at"])
        elif isinstance(first.answer, dict) and any(first.answer.get(name, "") is None for name in SECRETS):
            raise AlreadyExists(
                f"{first.answer.get('id', 'it')} was made by the first request with this key; its secret is shown "
                "once only: if it is lost, revoke it and make another"
            )
        return first


def finish(request: IdempotentRequest, status: int, answer: Any) -> None:
    """Keep the answer. A fault of ours is no answer: the request may be sent again."""
    if status >= 500 or status == 429:
        request.delete()
        return
    if isinstance(answer, dict):
        answer = {
            name: None if name in SECRETS and isinstance(value, str) else value
            for name, value in answer.items()
        }
    request.status, request.answer = status, answer
    request.save(update_fields=["status", "answer"])


def _forget(caller: str) -> None:
    old = IdempotentRequest.objects.filter(caller=caller, started_at__lt=timezone.now() - KEPT)
    pks = list(old.values_list("pk", flat=True)[:_FORGOTTEN_MAX])
    if pks:
        IdempotentRequest.objects.filter(pk__in=pks).delete()
