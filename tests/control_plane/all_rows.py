"""Every row of every table at one moment, read in one statement: what a test compares that nothing was written."""

import json
from functools import cache
from typing import Any

from django.db import connection

from tests.control_plane.emptying import KEPT

OBSERVED = "last_used_at"
"""Set when a credential is checked, before anything else of a request."""


def rows() -> dict[str, list[dict[str, Any]]]:
    """Table -> its rows, without what credentials were used for. PostgreSQL's alone."""
    with connection.cursor() as cursor:
        cursor.execute(_statement())
        return {table: json.loads(held) for table, held in cursor.fetchall()}


@cache
def _statement() -> str:
    quote = connection.ops.quote_name
    tables = sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT)
    assert len(tables) > 50
    return " UNION ALL ".join(
        f"SELECT '{table}', jsonb_agg(held.row ORDER BY held.row)::text"
        f" FROM (SELECT to_jsonb(part) - '{OBSERVED}' AS row FROM {quote(table)} AS part) AS held"
        " HAVING count(*) > 0"
        for table in tables
    )
