"""What operators want of brokers, plans and the moves that follow from them, cells, and what brokers last reported."""

from django.db import models

from control_plane.ids import LENGTH_MAX
from control_plane.outbox.models import DesiredObject

CELL_NAME_LENGTH_MAX = 64
BUDGET_BYTES_PER_S = 64 * 2**20
"""As much as one broker lets its followers catch up with by default."""
MOVES_AT_ONCE = 10
"""Each adds a copy, and the brokers limit the rate of all of them together."""


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
    """One partition's change of brokers. `source` is removed, `destination` is added; None = no broker is. Neither:
    another of its brokers is preferred as leader.
    """

    cause = models.CharField(max_length=16)
    """`drain`, `rebalance`, `move_tenant` or `replication`."""
    plan = models.CharField(max_length=LENGTH_MAX, blank=True, default="", db_index=True)
    """Public id of the placement plan that it belongs to; empty: of none."""
    copied_bytes = models.PositiveBigIntegerField(default=0)
    """What has to be copied for it, as far as it was known when it was planned."""
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


class PlanKind(models.TextChoices):
    """What a placement plan is for."""

    DRAIN = "drain"
    REBALANCE = "rebalance"
    MOVE_TENANT = "move_tenant"


class PlanState(models.TextChoices):
    """draft --confirmed--> running --every move has ended--> done; cancelled from draft and running."""

    DRAFT = "draft"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


class PlacementPlan(DesiredObject):
    """Moves that were worked out and shown. They do nothing until the plan is confirmed; then each is a `Move`."""

    kind = models.CharField(max_length=16, choices=PlanKind)
    state = models.CharField(max_length=9, choices=PlanState, default=PlanState.DRAFT)
    broker = models.PositiveIntegerField(null=True)
    """That is drained."""
    tenant = models.CharField(max_length=64, blank=True, default="")
    """Public id of the tenant that moves."""
    cell = models.CharField(max_length=CELL_NAME_LENGTH_MAX, blank=True, default="")
    """Name of the cell that it moves to; empty = the whole cluster."""
    cell_before = models.CharField(max_length=CELL_NAME_LENGTH_MAX, blank=True, default="")
    moves = models.JSONField(default=list)
    """Each {topic_id, topic, tenant, partition, replicas, target, source, destination, copied_bytes}."""
    copied_bytes = models.PositiveBigIntegerField(default=0)
    skew_before = models.JSONField(default=dict)
    skew_after = models.JSONField(default=dict)
    """Percent by what is weighed: replicas, log_bytes, leaders, bytes_per_s."""
    automatic = models.BooleanField(default=False)
    """Made by the balancer."""
    confirmed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)


class Cell(DesiredObject):
    """Brokers that some tenants' topics are placed on. A broker is in one cell at most."""

    name = models.CharField(max_length=CELL_NAME_LENGTH_MAX, unique=True)
    brokers = models.JSONField(default=list)
    hosts = models.JSONField(default=list)
    """All brokers on these hosts, also those that join later."""


class CellTenant(models.Model):
    """The cell of a tenant. One without a row may be anywhere."""

    tenant = models.CharField(max_length=64, unique=True)
    """Public id."""
    cell = models.ForeignKey(Cell, null=True, on_delete=models.PROTECT, related_name="tenants")
    """None = anywhere, and not to be given a cell by itself."""


class LoadReport(models.Model):
    """What one broker said last of its load."""

    broker = models.PositiveIntegerField(unique=True)
    seen_at = models.DateTimeField()
    sums = models.JSONField()
    """By name as in `BrokerLoadSeen`."""
    partitions = models.JSONField()
    """Each [topic id, partition, leads, log bytes, bytes in, bytes out, batches, slow-downs a second]."""


class BalancerMode(models.TextChoices):
    """What the balancer does when skew passes its bound."""

    OFF = "off"
    ADVISE = "advise"
    ON = "on"


class Balancer(DesiredObject):
    """The one row of the balancer: its switch and budget, and what it has seen."""

    mode = models.CharField(max_length=6, choices=BalancerMode, default=BalancerMode.ADVISE)
    bytes_per_s = models.PositiveBigIntegerField(default=BUDGET_BYTES_PER_S)
    """What moves of plans may begin to copy a second, over the whole cluster."""
    moves_at_once = models.PositiveIntegerField(default=MOVES_AT_ONCE)
    free_at = models.DateTimeField(null=True)
    """When the budget allows the next copying move."""
    uneven_since = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(null=True)
    skew = models.JSONField(default=dict)
    """At the last look, from what brokers reported."""
    waits = models.CharField(max_length=200, blank=True, default="")
    """Why it did nothing at the last look although skew is above its bound."""
