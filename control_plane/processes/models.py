"""Shapes: a lease that one process holds, the last sign of the workers, and what the schedule did."""

from django.db import models


class Lease(models.Model):
    """`daemon.lease` reads and writes it. `until` is seconds since 1970 by the database's clock."""

    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=40)
    number = models.PositiveBigIntegerField()
    """Grows with each holder."""
    until = models.FloatField()


class Heartbeat(models.Model):
    """One row: the last worker that swept the outbox, or that started or stopped after it."""

    kind = models.CharField(max_length=20, primary_key=True)
    holder = models.CharField(max_length=40)
    state = models.CharField(max_length=20)
    at = models.DateTimeField()


class ScheduledTask(models.Model):
    """When a task of the schedule went well last, on any worker, and with what it failed since."""

    name = models.CharField(max_length=60, primary_key=True)
    since = models.DateTimeField()
    """When it was noted first."""
    well_at = models.DateTimeField(null=True)
    """Noted some seconds late at most; None: it never went well."""
    due_s = models.FloatField()
    """It is late after so many seconds."""
    error = models.CharField(max_length=200)
    """Of the last round, if it failed; else empty."""


class Setback(models.Model):
    """An object of a round that failed the last time: it rests until `retry_at`, and the others go on without it."""

    kind = models.CharField(max_length=40)
    """Of the round's step."""
    object_id = models.CharField(max_length=64)
    failures = models.PositiveIntegerField(default=0)
    """In a row."""
    retry_at = models.DateTimeField()
    error = models.CharField(max_length=200)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["kind", "object_id"], name="processes_one_setback"),)
