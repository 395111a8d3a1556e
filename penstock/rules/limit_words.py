"""The words of a refusal by a limit: its name, its scope, what is used, when it clears, and who can raise it."""

from typing import Final

OPERATORS: Final = "an operator of the service"
PAYERS: Final = "a person of the tenant who is owner, admin or billing"
MANAGERS: Final = "an owner or admin of the tenant"


def limit_words(limit: str, use: str, *, clears: str, raised_by: str) -> str:
    """`use` names the scope, what is used of how much, and what was asked for. `clears` says when, as `in 40 ms` or
    `when a topic is deleted`.
    """
    return f"{limit}: {use}; clears {clears}, or once {raised_by} raises it"
