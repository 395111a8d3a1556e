"""Tasks of the worker use a database connection that is open, and get another one where it broke."""

from types import SimpleNamespace

import pytest
from celery import signals
from celery.fixups.django import DjangoWorkerFixup
from django.db import DatabaseError, connection

from control_plane.celery import app

TASK = SimpleNamespace(request=SimpleNamespace(is_eager=False))


@pytest.fixture
def fixup() -> DjangoWorkerFixup:
    """As the worker has it; not installed, so that no other test's task meets it."""
    return DjangoWorkerFixup(app)


def run_a_task(fixup: DjangoWorkerFixup) -> object:
    fixup.on_task_prerun(TASK)
    signals.task_prerun.send(sender=None, task=TASK)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    used = connection.connection
    fixup.on_task_postrun(TASK)
    return used


@pytest.mark.django_db(transaction=True)
def test_tasks_that_follow_one_another_use_one_connection(fixup: DjangoWorkerFixup) -> None:
    first = run_a_task(fixup)
    assert all(run_a_task(fixup) is first for _ in range(10))


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_broke_is_another_one_for_the_next_task(fixup: DjangoWorkerFixup) -> None:
    first = run_a_task(fixup)
    connection.connection.close()  # as a server that was restarted does
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert run_a_task(fixup) is not first
