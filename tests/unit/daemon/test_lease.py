"""Of several processes one holds a lease, on SQLite here: `tests/integration/fail_over` has it on PostgreSQL."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from daemon.lease import TABLE, Clock, Lease


class Table:
    """The table of leases, and monotonic clocks that the test moves."""

    def __init__(self, file: Path) -> None:
        self.database = sqlite3.connect(file, isolation_level=None)
        self.database.execute(
            f"CREATE TABLE {TABLE} (name TEXT PRIMARY KEY, holder TEXT, number INTEGER, until REAL)"
        )
        self.now_s = 100.0

    def execute(self, statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        return self.database.execute(statement.replace("%s", "?"), list(values)).fetchall()

    def lease(self, holder: str, length_s: float = 60.0) -> Lease:
        return Lease("work", holder, length_s=length_s, clock=Clock.SQLITE, monotonic=lambda: self.now_s)

    def end_it(self) -> None:
        """By the database's clock."""
        self.database.execute(f"UPDATE {TABLE} SET until = until - 3600")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "leases.sqlite")


def test_one_holds_it_and_the_other_does_not(table: Table) -> None:
    first, second = table.lease("a"), table.lease("b")
    assert first.hold(table.execute) and first.lasts and first.number == 1
    assert not second.hold(table.execute) and not second.lasts and second.number is None


def test_a_renewal_keeps_the_number_and_a_new_holder_has_a_greater_one(table: Table) -> None:
    first, second = table.lease("a"), table.lease("b")
    assert first.hold(table.execute) and first.hold(table.execute) and first.number == 1
    table.end_it()
    assert second.hold(table.execute) and second.number == 2
    assert not first.hold(table.execute) and not first.lasts
    table.end_it()
    assert first.hold(table.execute) and first.number == 3


def test_one_that_was_late_and_that_nobody_replaced_goes_on_under_its_number(table: Table) -> None:
    first = table.lease("a")
    assert first.hold(table.execute)
    table.end_it()
    assert first.hold(table.execute) and first.number == 1


def test_a_process_that_was_paused_holds_nothing_when_it_wakes_up(table: Table) -> None:
    first = table.lease("a", length_s=10.0)
    assert first.hold(table.execute)
    table.now_s += 9.9
    assert first.lasts
    table.now_s += 0.2
    assert not first.lasts


def test_the_time_counts_from_before_the_database_was_asked(table: Table) -> None:
    first = table.lease("a", length_s=10.0)

    def slow(statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        table.now_s += 7.0
        return table.execute(statement, values)

    assert first.hold(slow)
    assert first.lasts and first.age_s == 7.0
    table.now_s += 3.1
    assert not first.lasts


def test_what_a_failed_renewal_leaves_is_the_time_of_the_one_before(table: Table) -> None:
    first = table.lease("a", length_s=10.0)
    assert first.hold(table.execute)

    def away(statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        raise ConnectionError

    table.now_s += 5.0
    with pytest.raises(ConnectionError):
        first.hold(away)
    assert first.lasts
    table.now_s += 5.1
    assert not first.lasts


def test_a_released_lease_is_taken_at_once_and_only_its_holder_releases_it(table: Table) -> None:
    first, second = table.lease("a"), table.lease("b")
    assert first.hold(table.execute)
    second.release(table.execute)
    assert not second.hold(table.execute)
    first.release(table.execute)
    assert not first.lasts
    assert second.hold(table.execute) and second.number == 2


def test_a_table_from_a_backup_is_told_of_greater_numbers(table: Table) -> None:
    first, second = table.lease("a"), table.lease("b")
    assert first.hold(table.execute)
    assert not second.exceed(7, table.execute) and second.number is None
    assert first.exceed(7, table.execute) and first.number == 8
    assert first.exceed(3, table.execute) and first.number == 8
    assert first.hold(table.execute) and first.number == 8 and first.lasts
    table.end_it()
    assert second.hold(table.execute) and second.number == 9
    assert not first.exceed(20, table.execute) and not first.lasts
