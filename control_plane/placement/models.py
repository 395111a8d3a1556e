"""What operators want of brokers, and the moves of partitions that follow from it."""

from django.db import models

from control_plane.outbox.models import DesiredObject


class BrokerUse(models.TextChoices):
    """Whether a broker is to store partitions."""

    SERVE = "serve"
    DRAIN = "drain"


class BrokerOrder(DesiredObject):
    """One broker as an operator wants it. Without a row it serves."""

    broker = models.PositiveIntegerField(unique=True)
    use = models.CharField(max_length=8, choices=BrokerUse, default=BrokerUse.SERVE)
    replicas_at_start = models.PositiveIntegerField(default=0)
    """What it held when the drain began."""
    drained_at = models.DateTimeField(null=True)
    """When it was first seen to store and lead nothing. It can then be stopped for good."""


class MoveState(models.TextChoices):
    """waiting --its turn--> moving --seen on the brokers--> done; cancelled from either."""

    WAITING = "waiting"
    MOVING = "moving"
    CANCELLED = "cancelled"
    DONE = "done"


OPEN = (MoveState.WAITING, MoveState.MOVING)


class Move(DesiredObject):
    """One partition's change of brokers. `source` is removed, `destination` is added; None = no broker is."""

    cause = models.CharField(max_length=16)
    """`drain`, `rebalance` or `replication`."""
    topic_id = models.CharField(max_length=32)
    tenant = models.CharField(max_length=64)
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    source = models.PositiveIntegerField(null=True)
    destination = models.PositiveIntegerField(null=True)
    target = models.JSONField()
    """All replicas as they are to be, in order of preference."""
    state = models.CharField(max_length=9, choices=MoveState, default=MoveState.WAITING)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["topic_id", "partition"],
                condition=models.Q(state__in=[state.value for state in OPEN]),
                name="placement_one_open_move_a_partition",
            ),
        )
        indexes = (models.Index(fields=["state"], name="placement_by_state"),)
