"""ETags, and conditional changes: a change with If-Match is made only if the object is still as its caller read it.

The tag of an object that is delivered to the brokers is its generation. Observed fields (conditions, deliveries, last
use) do not change it, so a tag serves If-Match only and is not compared for caches.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import models, transaction
from rest_framework.request import Request

from control_plane.outbox.models import DesiredObject
from penstock.contract.errors import InvalidRequest, PreconditionFailed

HEADER = "If-Match"
_LENGTH_MAX = 1_000
_TAGS = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"(?:[ \t]*,[ \t]*(?:W/)?"[\x21\x23-\x7e]*")*')
_TAG = re.compile(r'(?:W/)?"[^"]*"')


def of(row: DesiredObject) -> str:
    """The tag of an object that has generations."""
    return f'"{row.generation}"'


def of_content(*content: object) -> str:
    """The tag of an object without generations: of the content, plain JSON, that a change can change."""
    return f'"{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]}"'


def check(request: Request, current: str) -> None:
    """Raise `PreconditionFailed` if the request has a condition that the object's `current` tag does not meet.

    The caller has locked the object, so that it cannot change before the caller's own change.
    """
    given = request.headers.get(HEADER)
    if given is None or given.strip() == "*":
        return
    if len(given) > _LENGTH_MAX or not _TAGS.fullmatch(given.strip()):
        raise InvalidRequest(f'{HEADER}: {given[:50]!r} is neither * nor tags in quotes like "3"')
    # RFC 9110, 13.1.1: compared strongly, so that a weak tag never matches.
    if current not in _TAG.findall(given):
        raise PreconditionFailed(
            f"{HEADER}: the request names {given[:50]}, the object's ETag is now {current}: it was changed"
        )


@contextmanager
def unchanged(request: Request, row: DesiredObject) -> Iterator[None]:
    """The block changes the object if it meets the request's condition. No other request changes it meanwhile."""
    if HEADER not in request.headers:
        yield
        return
    with transaction.atomic():
        owner = getattr(row, "tenant", None)
        if isinstance(owner, models.Model):
            # First, as every change does that locks the tenant too.
            type(owner)._default_manager.select_for_update(no_key=True).filter(pk=owner.pk).first()
        check(request, of(type(row)._default_manager.select_for_update(no_key=True).get(pk=row.pk)))
        yield


@contextmanager
def unchanged_within(request: Request, owner: models.Model, current: Callable[[], str]) -> Iterator[None]:
    """As `unchanged`, for what changes under the lock of its `owner` only. `current` reads its tag, under the lock."""
    if HEADER not in request.headers:
        yield
        return
    with transaction.atomic():
        type(owner)._default_manager.select_for_update(no_key=True).get(pk=owner.pk)
        check(request, current())
        yield
