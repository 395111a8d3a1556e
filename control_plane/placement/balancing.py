"""The balancer: looks at what brokers report, and when skew stays above its bound plans moves, or only says so.

    even --a skew passes the bound--> uneven --HOLD later, cluster at rest--> a draft (advise), or a running plan (on)

The sums that brokers report say whether there is anything to do; the partitions are asked for only then. It begins
nothing while a broker is away or drained, a copy is missing, anything moves, a plan runs, or a broker does not report.
It acts above TRIGGER_PERCENT and aims below AIM_PERCENT, so that it does not move to and fro.
"""

import logging
from datetime import timedelta

from django.utils import timezone

from control_plane.audit.actor import system
from control_plane.brokers import client as brokers
from control_plane.brokers import view
from control_plane.placement import plan_actions, planning, queries
from control_plane.placement.models import BalancerMode, PlanState
from control_plane.placement.weighing import not_at_rest, reports_skew
from control_plane.topics import queries as topics
from data_plane.placement.balance import TRIGGER_PERCENT

HOLD = timedelta(seconds=60)
"""So long skew has to stay above the bound: three times what a rate remembers."""
ADVICE_LASTS = timedelta(hours=1)
"""A draft of the balancer that is younger stands; it makes no second one beside it."""
AUTOMATIC_MOVES_MAX = 100
"""Of one plan of its own: then it looks again."""
_log = logging.getLogger(__name__)


def look() -> None:
    """One round: keep what brokers report, and act if that is due. Raises `BrokerUnavailable` when none answers."""
    seen = brokers.describe(timeout_s=planning.ASK_S)
    reports = brokers.describe_loads(seen)
    plan_actions.keep_loads(reports)
    balancer = queries.balancer()
    if balancer.mode == BalancerMode.OFF:
        return
    skew = reports_skew(reports)
    uneven = max(skew.values(), default=0.0) > TRIGGER_PERCENT
    waits = _why_not(seen, len(reports)) if uneven else ""
    balancer = plan_actions.note_look(skew, uneven=uneven, waits=waits)
    since = balancer.uneven_since
    if waits or since is None or timezone.now() - since < HOLD or _advised():
        return
    actor = system("balancer")
    full = planning.described()
    waits = not_at_rest(full)
    if waits:
        plan_actions.note_look(skew, uneven=True, waits=waits)
        return
    plan = planning.rebalance(actor, automatic=True, moves_max=AUTOMATIC_MOVES_MAX)
    if plan is None:
        plan_actions.note_look(skew, uneven=True, waits="no move makes it more even")
        return
    if balancer.mode == BalancerMode.ON:
        planning.confirm(actor, plan)
    _log.info("the balancer has made a plan", extra={"plan": plan.public_id, "mode": balancer.mode})


def _why_not(seen: view.ClusterView, reported: int) -> str:
    """What speaks against moving anything, as far as it is known without asking for partitions."""
    waits = not_at_rest(seen)
    if waits:
        return waits
    if reported < len(seen.brokers):
        return f"{reported} of {len(seen.brokers)} brokers report their load"
    if queries.running_plans().exists() or queries.open_moves().exists():
        return "a plan is running"
    return "copies of a topic are added or removed" if topics.with_copies_due().exists() else ""


def _advised() -> bool:
    return (
        queries.plans()
        .filter(automatic=True, state=PlanState.DRAFT, created_at__gt=timezone.now() - ADVICE_LASTS)
        .exists()
        and queries.balancer().mode == BalancerMode.ADVISE
    )
