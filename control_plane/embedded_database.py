"""Checkpoints of the embedded database: made only here, and never while a process commits (docs/decisions/0011)."""

import sqlite3
from contextlib import closing
from pathlib import Path

from django.db import connection

BUSY_S = 5.0
LOG_BYTES = 1 << 20
"""A longer write-ahead log is worth a checkpoint of its own."""


def is_log_long() -> bool:
    """Whether the write-ahead log is to be copied soon; never on PostgreSQL."""
    if connection.vendor != "sqlite":
        return False
    try:
        return Path(f"{connection.settings_dict['NAME']}-wal").stat().st_size > LOG_BYTES
    except FileNotFoundError:
        return False


def checkpoint() -> None:
    """Copy the write-ahead log into the database while the write lock keeps every process's commits out.

    Does nothing on PostgreSQL. It gives up, until the next time, while another process has a long transaction.
    """
    if connection.vendor != "sqlite":
        return
    file = connection.settings_dict["NAME"]
    with (
        closing(sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)) as locking,
        closing(sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)) as copying,
    ):
        try:
            locking.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return
        try:
            copying.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        finally:
            locking.execute("ROLLBACK")
