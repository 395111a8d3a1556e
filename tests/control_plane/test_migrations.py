"""Migrations make what the models say; the tests of this folder begin on a database that they have made before."""

from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests import migrated


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
