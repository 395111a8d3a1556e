"""Migrations make what the models say, and an empty database is made at once; the tests of this folder begin on one
that was made before.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.commands import migrate as of_django
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import load_backend

from control_plane import config
from control_plane.reconciliation.management.commands import migrate
from tests import migrated

IN_POSTGRESQL = {
    "columns": """
        SELECT table_name, column_name, data_type, character_maximum_length, numeric_precision, numeric_scale,
            is_nullable, column_default, is_identity, identity_generation, collation_name
        FROM information_schema.columns WHERE table_schema = 'public'
    """,
    "constraints": """
        SELECT conrelid::regclass::text, conname, condeferrable, condeferred, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    """,
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "everything else": """
        SELECT relkind::text, relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
    """,
}
ROWS = {
    "migrations": "SELECT app, name FROM django_migrations",
    "types": "SELECT app_label, model FROM django_content_type",
    "permissions": "SELECT name, codename FROM auth_permission",
}


@pytest.mark.django_db
def test_no_model_has_changed_without_a_migration() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


@pytest.mark.django_db
def test_django_finds_nothing_wrong() -> None:
    """Commands of the service do not ask it again."""
    call_command("check", fail_level="WARNING")


@pytest.mark.django_db
def test_a_database_that_was_copied_has_every_migration() -> None:
    executor = MigrationExecutor(connection)
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []


def test_a_copied_database_is_made_anew_when_a_migration_of_any_app_of_ours_changes() -> None:
    folders = [Path(app.path) for app in apps.get_app_configs() if (Path(app.path) / "migrations").is_dir()]
    ours = {
        folder.relative_to(migrated.ROOT).parts[0]
        for folder in folders
        if folder.is_relative_to(migrated.ROOT) and ".venv" not in folder.parts
    }
    assert ours == set(migrated.SOURCES)


@contextmanager
def _empty_database(engine: str, name: str, folder: Path) -> Iterator[None]:
    """A database of its own is the default one within the block."""
    settings = dict(connections.settings["default"])
    if engine == "sqlite":
        settings |= config.database(f"sqlite:///{folder}/{name}.sqlite", None)
    else:
        with connections["default"].copy(alias="maker")._nodb_cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        settings["NAME"] = name
    before = connections["default"]
    own = load_backend(settings["ENGINE"]).DatabaseWrapper(settings, "default")
    connections["default"] = own
    try:
        yield
    finally:
        own.close()
        connections["default"] = before


def _all_of_it() -> dict[str, list[Any]]:
    """What is in the database of a new service, in no order: tables, columns, constraints, indexes and rows."""
    found: dict[str, list[Any]] = {}
    with connection.cursor() as cursor:
        queries = dict(ROWS)
        if connection.vendor == "postgresql":
            queries |= IN_POSTGRESQL
        else:
            cursor.execute("SELECT type, name, sql FROM sqlite_master")
            found["objects"] = sorted(
                (kind, name, _in_no_order(str(sql)) if kind == "table" else str(sql))
                for kind, name, sql in cursor.fetchall()
            )
        for name, query in queries.items():
            cursor.execute(query)
            # A column that became unique later has a name by Django, one that was made so a name by PostgreSQL. Django
            # finds both by the column.
            found[name] = sorted(
                re.sub(r"_[0-9a-f]{8}_uniq\b", "_key", repr(row)) for row in cursor.fetchall()
            )
        tables = sorted(connection.introspection.table_names(cursor))
        counts = " UNION ALL ".join(f"SELECT '{table}', count(*) FROM \"{table}\"" for table in tables)
        cursor.execute(counts)
        found["numbers of rows"] = sorted(cursor.fetchall())
    return found


def _in_no_order(sql: str) -> list[str]:
    """The columns and constraints of a table as SQLite keeps them: text between commas outside brackets."""
    head, _, inside = sql.partition("(")
    assert inside.endswith(")"), sql
    parts, depth = [""], 0
    for character in inside[:-1]:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [head, *sorted(part.strip() for part in parts)]


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_an_empty_database_is_made_at_once_as_all_migrations_make_it(engine: str, tmp_path: Path) -> None:
    with _empty_database(engine, "at_once", tmp_path):
        call_command("migrate", verbosity=0, skip_checks=True)
        at_once = _all_of_it()
        executor = MigrationExecutor(connection)
        assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []
    with _empty_database(engine, "one_by_one", tmp_path):
        call_command(of_django.Command(), verbosity=0, skip_checks=True)
        one_by_one = _all_of_it()
    assert len(one_by_one["migrations"]) > 90
    for name, rows in one_by_one.items():
        assert at_once[name] == rows, name


@pytest.mark.django_db
def test_the_migrations_of_one_app_go_forth_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with _empty_database("sqlite", "used", tmp_path):
        call_command("migrate", "outbox", verbosity=0, skip_checks=True)
        call_command("migrate", "outbox", "0001", verbosity=0, skip_checks=True)
        call_command("migrate", "outbox", verbosity=1, skip_checks=True)
        said = capsys.readouterr().out
        assert "outbox.0002_delivery_reason... OK" in said, said


@pytest.mark.django_db
def test_a_database_with_a_table_and_a_part_of_the_migrations_are_left_to_djangos_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(of_django.Command, "handle", lambda command, *_, **options: asked.append(options))
    with _empty_database("sqlite", "used", tmp_path):
        parts: list[dict[str, Any]] = [{"app_label": "outbox"}, {"plan": True}, {"check_unapplied": True}]
        for part in (*parts, {"fake": True}, {"fake_initial": True}, {"prune": True}, {"run_syncdb": True}):
            call_command("migrate", verbosity=0, skip_checks=True, **part)
            assert connection.introspection.table_names() == [], part
            assert part.items() <= asked[-1].items()
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE somebodys (id integer)")
        call_command("migrate", verbosity=0, skip_checks=True)
        assert connection.introspection.table_names() == ["somebodys"]
        assert len(asked) == 8


@pytest.mark.django_db
def test_one_process_migrates_a_postgresql_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    other = connection.copy()
    asked: list[bool] = []

    def is_free(*_: object, **__: object) -> None:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s), pg_advisory_unlock_all()", [migrate._LOCK])
            asked.append(cursor.fetchone()[0])

    monkeypatch.setattr(of_django.Command, "handle", is_free)
    try:
        for options in ({}, {"app_label": "outbox"}):
            call_command("migrate", verbosity=0, skip_checks=True, **options)
            is_free()
    finally:
        other.close()
    assert asked == [False, True] * 2


@pytest.mark.django_db
def test_one_that_is_killed_in_the_middle_leaves_an_empty_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _empty_database("sqlite", "killed", tmp_path):
        with monkeypatch.context() as patches:
            patches.setattr(MigrationRecorder, "record_applied", _killed)
            with pytest.raises(KeyboardInterrupt):
                call_command("migrate", verbosity=0, skip_checks=True)
        assert connection.introspection.table_names() == []
        call_command("migrate", verbosity=0, skip_checks=True)
        assert "tenants_tenant" in connection.introspection.table_names()


def _killed(recorder: MigrationRecorder, app: str, name: str) -> None:
    raise KeyboardInterrupt
