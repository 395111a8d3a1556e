"""What goes by itself when its time is over: topics in recycle bins, and closed tenants, each billed up to its end.

Closing a tenant ends no period: one that is reopened goes on in the one that runs, so no one has a free allowance, a
tier or a discount twice in a month. A tenant is purged only when the invoice of a period that ends after its grace
period is issued; the brokers refuse its keys since long before, so nothing is accepted that no cut counts.
"""

import logging

from django.utils import timezone

from billing import period_actions, tax_actions
from billing import queries as billing
from control_plane.audit.actor import system
from control_plane.audit_topics import actions as audit_topics
from control_plane.processes import setbacks
from control_plane.reconciliation import forgetting
from control_plane.topics import actions as topics
from control_plane.topics import bin_actions as bins
from control_plane.topics import queries as topic_queries
from control_plane.topics.models import Topic
from control_plane.webhooks import actions as webhooks
from payments import former_payers
from penstock.contract.errors import InvalidRequest, NotFound
from tenants.closing import actions, queries
from tenants.models import Tenant

TOPICS_PER_ROUND = 100
"""Topics of one tenant that are deleted in one round; the rest come with the next."""
PURGED_PER_ROUND = 1_000
"""Topics of all tenants that are deleted from recycle bins in one round."""
EMPTYING = "recycle bins"
ACTOR = system("closing")
BIN_ACTOR = system("recycle-bin")
_log = logging.getLogger(__name__)


def empty_bins() -> int:
    """One round over all topics whose time in the recycle bin is over; how many were deleted for good."""
    purged = 0

    def purge(topic: Topic) -> None:
        nonlocal purged
        purged += bins.purge_due(BIN_ACTOR, topic)

    setbacks.each(EMPTYING, topic_queries.topics_to_purge(), purge, most=PURGED_PER_ROUND)
    return purged


def drive_closed() -> int:
    """One round over all closed tenants; how many were purged."""
    purged = 0
    for tenant in list(queries.closed()):
        try:
            purged += _drive(tenant)
        except Exception:
            # A fault of the service with one tenant. The others must not wait for it.
            _log.exception("a closed tenant waits", extra={"tenant": tenant.public_id})
    return purged


def _drive(tenant: Tenant) -> bool:
    assert tenant.purge_at is not None
    if not queries.due(tenant):
        return False
    if not billing.is_billed_until(tenant, tenant.purge_at):
        _close_period(tenant)
    if not billing.is_invoiced_until(tenant, tenant.purge_at):
        return False
    left = topic_queries.topics(tenant).order_by("pk")
    for topic in list(left[:TOPICS_PER_ROUND]):
        try:
            topics.delete_topic(ACTOR, tenant, topic.name)
        except NotFound:
            pass  # another worker was first
    for topic in list(topic_queries.binned_topics(tenant).order_by("pk")[:TOPICS_PER_ROUND]):
        try:
            bins.purge_topic(ACTOR, tenant, topic.public_id)
        except NotFound:
            pass  # another worker was first
    if topic_queries.topics(tenant).exists() or topic_queries.binned_topics(tenant).exists():
        return False
    webhooks.delete_all(ACTOR, tenant)
    audit_topics.forget(tenant)
    tax_actions.forget_address(ACTOR, tenant)
    former_payers.remember(tenant)
    forgetting.forget(ACTOR, tenant)
    actions.purge(ACTOR, tenant)
    _log.info("a tenant is purged", extra={"tenant": tenant.public_id})
    return True


def _close_period(tenant: Tenant) -> None:
    try:
        period_actions.close_period(ACTOR, tenant.public_id, end=timezone.now())
    except InvalidRequest as error:
        # Another worker was first, within the same millisecond; or its prices are missing. The next round tries again.
        _log.warning("period not closed", extra={"tenant": tenant.public_id, "error": error.message})
