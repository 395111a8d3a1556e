"""Rows that take long to make, made once for all tests of a module or all steps of a walk."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from pytest_django.plugin import DjangoDbBlocker

from tests.control_plane import counts


@contextmanager
def rows_of_a_module(blocker: DjangoDbBlocker) -> Iterator[None]:
    """What is made in the block every test of the module finds as it was: a test's own transaction is a savepoint in
    this one, which leaves nothing behind. For a fixture of a module that asks for `django_db_setup`; its tests take a
    copy of the objects.
    """
    with blocker.unblock(), _without_a_trace():
        yield


@contextmanager
def undone() -> Iterator[None]:
    """For a step of a walk before others: what it writes, and what it counts of its callers, is gone behind it."""
    with _without_a_trace():
        yield
    counts.forget()


@contextmanager
def _without_a_trace() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
