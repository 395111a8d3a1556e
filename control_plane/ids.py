"""Public ids: a prefix for the kind, and 22 random letters and digits (131 bits), so that no id is used twice."""

import secrets

from penstock.contract.api_keys import ALPHABET

RANDOM_LENGTH = 22
LENGTH_MAX = 40
"""Width of the columns of ids: enough for every prefix."""


def random_text(length: int) -> str:
    """Letters and digits from the operating system's randomness."""
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def new_id(prefix: str) -> str:
    """A new public id, for instance `top_4fZ…`."""
    return f"{prefix}_{random_text(RANDOM_LENGTH)}"


def new_tenant_id() -> str:
    return new_id("tn")


def new_person_id() -> str:
    return new_id("usr")


def new_organisation_id() -> str:
    return new_id("org")


def new_budget_id() -> str:
    return new_id("bud")


def new_topic_id() -> str:
    return new_id("top")


def new_sign_in_id() -> str:
    return new_id("sin")
