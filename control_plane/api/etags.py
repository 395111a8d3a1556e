"""ETags of objects that can be changed, and changes that are made only if the object is still as its caller read it.

The tag of what brokers hear of is its generation, which counts changes and stands in the body too; what is observed
(conditions, deliveries, last use) does not change it. So a tag is for If-Match, and is not compared for caches.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
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


def demand(request: Request, current: str) -> None:
    """Raise `PreconditionFailed` unless the request names the object's `current` tag, or any, or has no condition.

    The caller holds what keeps the object from changing until its own change is made.
    """
    given = request.headers.get(HEADER)
    if given is None or given.strip() == "*":
        return
    if len(given) > _LENGTH_MAX or not _TAGS.fullmatch(given.strip()):
        raise InvalidRequest(f'{HEADER}: {given[:50]!r} is neither * nor tags in quotes like "3"')
    # RFC 9110, 13.1.1: compared strongly, so that a weak tag never matches.
    if current not in _TAG.findall(given):
        raise PreconditionFailed(
            f"{HEADER}: {given[:50]} was asked for, it is {current} now: somebody changed it"
        )


@contextmanager
def unchanged(request: Request, row: DesiredObject) -> Iterator[None]:
    """The block changes the object, if it is still as the request demands; nobody else does meanwhile."""
    if HEADER not in request.headers:
        yield
        return
    with transaction.atomic():
        demand(request, of(type(row)._default_manager.select_for_update(no_key=True).get(pk=row.pk)))
        yield
