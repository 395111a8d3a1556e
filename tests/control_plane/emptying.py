"""The database after a test that committed: what holds rows is emptied, and nothing else is touched.

Django's `flush` truncates every table, each of which is then a new file for itself and for each index, and makes the
content types and permissions again. To truncate a table PostgreSQL has to truncate every table that refers to it, which
takes a hundred times as long as to delete some rows and to vacuum what held them.
"""

from typing import Any

from django.db import connections, transaction
from django.test import TransactionTestCase

KEPT = {"django_content_type", "auth_permission"}
"""What `flush` makes again as it was."""


def empty(alias: str) -> None:
    """Remove all rows of the database's tables but those of `KEPT`."""
    connection = connections[alias]
    names = [name for name in connection.introspection.django_table_names() if name not in KEPT]
    quoted = {name: connection.ops.quote_name(name) for name in names}
    looks = [f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {table})" for name, table in quoted.items()]
    with connection.cursor() as cursor:
        with transaction.atomic(using=alias):
            cursor.execute(" UNION ALL ".join(looks))
            held = [quoted[name] for (name,) in cursor.fetchall()]
            # References are checked at the end, when all of them are gone.
            for table in held:
                cursor.execute(f"DELETE FROM {table}")
        if held and connection.vendor == "postgresql":
            # Else later rows would fill the holes, in another order than that in which they come.
            cursor.execute(f"VACUUM {', '.join(held)}")


def use() -> None:
    """Instead of Django's own way, for all tests of this process."""

    def teardown(case: Any) -> None:
        for alias in case._databases_names(include_mirrors=False):
            empty(alias)

    TransactionTestCase._fixture_teardown = teardown  # type: ignore[attr-defined]
