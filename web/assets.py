"""Addresses of static files change with their content."""

import hashlib
from functools import cache

from django.contrib.staticfiles import finders
from django.core.exceptions import SuspiciousFileOperation


@cache
def digest(path: str) -> str:
    """Digest of an existing file. Raises `FileNotFoundError`."""
    found = finders.find(path)
    if not isinstance(found, str):
        raise FileNotFoundError(path)
    with open(found, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:12]


def digest_of(path: str) -> str | None:
    """Digest of a requested file; None if there is no such file."""
    try:
        return digest(path)
    except (OSError, ValueError, SuspiciousFileOperation):
        return None
