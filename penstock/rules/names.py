"""Which names of topics, prefixes, operations, groups, members and keys are valid. Both planes apply these rules."""

import re
import unicodedata
from collections.abc import Iterable

from penstock.contract import limits
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT

INTERNAL_PREFIX = "__"
"""The service's own topics begin with it."""
AUDIT_TOPIC = "__audit"
"""A tenant's own copy of its audit log: the service alone writes it, and a key reads it by a scope that names it."""
OPERATIONS = ("describe", "produce", "consume", "delete")
"""Operations that a key can be limited to."""
_CHARACTERS = "A-Z a-z 0-9 . _ -"
_ALIKE = ("ARMENIAN", "CHEROKEE", "CYRILLIC", "GREEK", "LATIN")
"""Alphabets with letters that look like those of another of them."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def check_topic_name(tenant: str, name: str) -> None:
    """Raises `InvalidRequest` unless the tenant may give a topic this name.

    Only the system tenant has topics whose names begin with `INTERNAL_PREFIX`.
    """
    if not 1 <= len(name) <= limits.TOPIC_NAME_LENGTH_MAX or not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidRequest(
            f"name: {name[:64]!r}: 1 to {limits.TOPIC_NAME_LENGTH_MAX} of {_CHARACTERS}, and neither '.' nor '..'"
        )
    if name.startswith(INTERNAL_PREFIX) and tenant != SYSTEM_TENANT:
        raise InvalidRequest(f"name: {name!r}: names that begin with {INTERNAL_PREFIX} are the service's own")


def is_of_topics(text: str) -> bool:
    """Whether names of topics consist of such characters."""
    return _NAME.fullmatch(text) is not None


def check_topic_prefix(prefix: str) -> None:
    """Raises `InvalidRequest` unless a key can be limited to this prefix. An empty prefix means every topic."""
    if len(prefix) > limits.TOPIC_NAME_LENGTH_MAX or (prefix and not _NAME.fullmatch(prefix)):
        raise InvalidRequest(
            f"topic_prefix: {prefix[:64]!r}: at most {limits.TOPIC_NAME_LENGTH_MAX} of {_CHARACTERS}"
        )


def is_printable_name(name: str, length_max: int) -> bool:
    """Whether a group, a member or a key may be called so: 1 to `length_max` printable characters of any alphabet."""
    return 1 <= len(name) <= length_max and name.isprintable()


def is_domain_name(name: str) -> bool:
    """Whether a zone or a host may be called so. A space at an end is an error that no reader would see."""
    return is_printable_name(name, limits.DOMAIN_NAME_LENGTH_MAX) and name == name.strip()


def check_printable_name(field: str, name: str, length_max: int) -> None:
    """Raises `InvalidRequest` unless `is_printable_name`."""
    if not is_printable_name(name, length_max):
        raise InvalidRequest(f"{field}: {name[:50]!r}: 1 to {length_max} printable characters required")


def check_display_name(field: str, name: str, length_max: int) -> None:
    """Raises `InvalidRequest` unless people may call something so: printable, in its usual form (NFKC), without spaces
    at its ends, and with letters of one of the alphabets that look alike only.

    A name of one alphabet can still look like another name: wherever it is shown, show the name that is unique too.
    """
    check_printable_name(field, name, length_max)
    if name != unicodedata.normalize("NFKC", name.strip()):
        raise InvalidRequest(f"{field}: {name[:50]!r}: write it in its usual form (NFKC), no space at an end")
    alphabets = {
        alphabet
        for letter in name
        for alphabet in _ALIKE
        if letter.isalpha() and unicodedata.name(letter, "").startswith(alphabet)
    }
    if len(alphabets) > 1:
        found = " and ".join(sorted(alphabet.capitalize() for alphabet in alphabets))
        raise InvalidRequest(f"{field}: {name[:50]!r}: it has letters of {found}, of which some look alike")


def check_operations(operations: Iterable[str]) -> None:
    """Raises `InvalidRequest` unless each is one of `OPERATIONS`."""
    for operation in operations:
        if operation not in OPERATIONS:
            raise InvalidRequest(f"operations: {operation[:32]!r} is not one of {', '.join(OPERATIONS)}")
