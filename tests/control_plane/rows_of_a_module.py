"""Rows that take long to make, made once for all tests of a module."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from pytest_django.plugin import DjangoDbBlocker


@contextmanager
def rows_of_a_module(blocker: DjangoDbBlocker) -> Iterator[None]:
    """What is made in the block every test of the module finds as it was: a test's own transaction is a savepoint in
    this one, which leaves nothing behind. For a fixture of a module that asks for `django_db_setup`; its tests take a
    copy of the objects.
    """
    with blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)
