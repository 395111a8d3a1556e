"""Short questions to the database that are asked again and again: whether there is a row of a kind.

Making a statement of Django's costs some ten times what it costs to ask it, so each is made once.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from control_plane.processes import actions

Look = Callable[[], bool]
"""It may raise `DatabaseError`."""
_NOW = datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)
"""Stands in statements for the time at which they are asked; no row has it."""


def any_row(*questions: Callable[[], QuerySet[Any]]) -> Look:
    """A look whether one of these finds a row. None may have a value in it that changes."""
    return _look(*questions, values_at=lambda values: values)


def any_due(question: Callable[[datetime], QuerySet[Any]]) -> Look:
    """A look whether this finds a row, of the time at which it is asked."""
    return _look(lambda: question(_NOW), values_at=_at_this_time)


def _look(
    *questions: Callable[[], QuerySet[Any]],
    values_at: Callable[[tuple[Any, ...]], tuple[Any, ...]],
) -> Look:
    statements: list[tuple[str, tuple[Any, ...]]] = []

    def look() -> bool:
        if not statements:
            parts = [question().order_by().values("pk")[:1].query.sql_with_params() for question in questions]
            text = " OR ".join(f"EXISTS ({statement})" for statement, _ in parts)
            statements.append((f"SELECT {text}", tuple(value for _, values in parts for value in values)))
        text, values = statements[0]
        return bool(actions.execute(text, values_at(values))[0][0])

    return look


def _at_this_time(values: tuple[Any, ...]) -> tuple[Any, ...]:
    then, now = map(connection.ops.adapt_datetimefield_value, (_NOW, timezone.now()))
    return tuple(now if value == then else value for value in values)
