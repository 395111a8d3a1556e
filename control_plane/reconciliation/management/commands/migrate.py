"""`migrate`: Django's command, which makes an empty database at once.

Applying one migration after another to an empty database takes seconds of processor time, for tables that the next one
changes. Here each table is made as the last migration leaves it, and each migration is recorded as applied: the next
release goes on from there, and the way back is open. Migrations that change rows find none in an empty database.
`tests/control_plane/test_migrations.py` compares both ways on both databases.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.core.management.commands import migrate
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor

_ONLY_A_PART = ("app_label", "plan", "check_unapplied", "fake", "fake_initial", "prune", "run_syncdb")
"""Options of Django's command that ask for something else than every migration applied."""
_LOCK = int.from_bytes(b"migrate", "big")
"""Of PostgreSQL: nothing else of the service asks for one of these."""


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        with one_at_a_time(connection):
            if not any(options[name] for name in _ONLY_A_PART):
                connection.prepare_database()
                if not connection.introspection.table_names():
                    count = make_at_once(connection)
                    if options["verbosity"] >= 1:
                        self.stdout.write(f"The database was empty: tables made as after {count} migrations.")
            super().handle(*args, **options)


@contextmanager
def one_at_a_time(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Of processes that migrate one PostgreSQL together the second waits, and finds it done. A file has one host, whose
    runner starts one process: there the second fails, and changes nothing.
    """
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
    try:
        yield
    finally:
        # Without its connection it has no lock any more.
        with suppress(DatabaseError), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


def make_at_once(connection: BaseDatabaseWrapper) -> int:
    """Make all tables in an empty database and record every migration as applied; how many these are.

    One transaction: a process that is killed in the middle leaves an empty database.
    """
    executor = MigrationExecutor(connection)
    migrations = [migration for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]
    recorder = executor.recorder
    with connection.schema_editor() as editor:
        editor.create_model(recorder.Migration)
        # As the migrations know the models: the type of a key that a model does not name is another one in its app.
        for model in executor.loader.project_state().apps.get_models():
            if model._meta.can_migrate(connection):
                editor.create_model(model)
        for migration in migrations:
            recorder.record_applied(migration.app_label, migration.name)
    return len(migrations)
