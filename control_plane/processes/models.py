"""Shapes: a lease that one process holds, and the last sign of the workers."""

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
