"""Checkpoints of the embedded database: it makes none by itself, and ours meet no commit."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection, transaction

from control_plane import embedded_database
from tenants.models import Tenant

pytestmark = pytest.mark.django_db(transaction=True)


def _log_bytes() -> int:
    log = Path(f"{connection.settings_dict['NAME']}-wal")
    return log.stat().st_size if log.exists() else 0


def _commit(count: int) -> None:
    for number in range(count):
        with transaction.atomic():
            Tenant.objects.create(name=f"tenant-{number}", public_id=f"tn_{number}")


def test_no_connection_checkpoints_by_itself() -> None:
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert cursor.execute("PRAGMA wal_autocheckpoint").fetchone()[0] == 0


def test_a_checkpoint_lets_the_log_be_written_from_its_beginning_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _commit(20)
    grown = _log_bytes()
    assert not embedded_database.is_log_long()
    monkeypatch.setattr(embedded_database, "LOG_BYTES", grown - 1)
    assert embedded_database.is_log_long()
    for _ in range(3):
        embedded_database.checkpoint()
        _commit_again()
    assert 0 < _log_bytes() <= grown
    assert Tenant.objects.filter(public_id__startswith="tn_").count() == 20


def _commit_again() -> None:
    for tenant in Tenant.objects.filter(public_id__startswith="tn_")[:5]:
        tenant.suspended = not tenant.suspended
        tenant.save()


def test_a_checkpoint_gives_way_to_a_transaction_that_holds_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_database, "BUSY_S", 0.05)
    _commit(3)
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        embedded_database.checkpoint()
        other.execute("ROLLBACK")
    embedded_database.checkpoint()
    assert Tenant.objects.filter(public_id__startswith="tn_").count() == 3
