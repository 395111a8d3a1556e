"""Celery tasks of the cluster app: reconciliation."""

import logging

from celery import shared_task
from django.utils import timezone

from billing.expected_costs import expected_month
from billing.unit_rates import unit_rates
from control_plane import looks, schedule
from control_plane.brokers import client
from control_plane.reconciliation import purging
from control_plane.reconciliation.rounds import Rounds
from control_plane.topics import queries as topics
from penstock.contract.errors import BrokerUnavailable
from penstock.rules.timestamps import time_ms
from quotas import budget_notices, budget_queries, growth, storage_warnings
from tenants.closing import queries as closing
from tenants.credentials import current_version
from tenants.key_use import actions, peppers

KEY_USE_WITHIN_S = 600.0
"""Ten rounds: what a broker did not tell in one, it tells in the next."""
CLOSED_AT_REST_S = 60.0
BINS_AT_REST_S = 300.0
_rounds = Rounds()
_log = logging.getLogger(__name__)


@shared_task(name="cluster.drive_closed")
def drive_closed() -> None:
    """One round over closed tenants; what waits for an invoice or for brokers is looked at again the next time."""
    purging.drive_closed()


@shared_task(name="cluster.empty_bins")
def empty_bins() -> None:
    """Delete for good what has been in a recycle bin for its time."""
    purging.empty_bins()


@shared_task(name="cluster.note_key_use")
def note_key_use() -> None:
    """Ask the brokers which keys they served, rotate the pepper, and write to tenants whose storage is nearly full;
    brokers that are away are asked the next time.
    """
    try:
        version = current_version()
    except (OSError, ValueError) as error:
        _log.warning("the folder of peppers cannot be used", extra={"error": str(error)})
        version = 0  # no hashes are asked for
    try:
        seen = client.key_use(KEY_USE_WITHIN_S, version)
    except BrokerUnavailable as error:
        _log.warning("the use of keys was not asked", extra={"error": error.message})
        return
    if seen.silent:
        _log.info("some brokers did not say which keys they served", extra={"brokers": list(seen.silent)})
    actions.note_keys_used(seen.ages_s)
    try:
        peppers.rehash_reported(seen, version)
        peppers.turn(seen)
    except (OSError, ValueError) as error:
        _log.warning("the folder of peppers cannot be used", extra={"error": str(error)})
    storage_warnings.note(seen.near_storage)


@shared_task(name="cluster.note_budgets")
def note_budgets() -> None:
    """Ask what was counted of budgets, and write about thresholds that were reached; brokers that are away are asked
    the next time. Stop what grows by itself where a ceiling of cost is expected to be reached.
    """
    growth.look(
        expected_month, lambda tenant: client.tenant_use(tenant.public_id).storage_bytes, timezone.now()
    )
    rows = list(budget_queries.all_budgets())
    seen = client.budget_use(list(dict.fromkeys(row.tenant.public_id for row in rows))) if rows else {}
    if seen is None:
        _log.warning("the use of budgets was not asked: the brokers do not answer")
        return
    now_ms = time_ms(timezone.now())
    budget_notices.note(rows, budget_queries.with_use_before(rows, seen, now_ms), unit_rates)


@shared_task(name="cluster.reconcile")
def reconcile() -> None:
    """Compare once, if anything has changed; brokers that are away are compared the next time."""
    try:
        _rounds.turn()
    except BrokerUnavailable as error:
        _log.warning("nothing was reconciled", extra={"error": error.message})


schedule.looks_first("cluster.drive_closed", looks.any_row(closing.closed), at_rest_s=CLOSED_AT_REST_S)
schedule.looks_first("cluster.empty_bins", looks.any_due(topics.purge_due), at_rest_s=BINS_AT_REST_S)
schedule.looks_first(
    "cluster.note_budgets", looks.any_row(budget_queries.any_budget), at_rest_s=CLOSED_AT_REST_S
)
