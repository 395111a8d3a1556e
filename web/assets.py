"""Static files by what is in them: an address changes when its content does."""

import hashlib
from functools import cache

from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation


@cache
def digest(path: str) -> str:
    """Of a file that is there. Raises `FileNotFoundError`."""
    found = finders.find(path)
    if not isinstance(found, str):
        raise FileNotFoundError(path)
    with open(found, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:12]


def digest_of(path: str) -> str | None:
    """Of a file that somebody asked for; None where there is none."""
    try:
        return digest(path)
    except (OSError, ValueError, SuspiciousFileOperation):
        return None
