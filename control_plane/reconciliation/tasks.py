"""Celery tasks of the cluster app: reconciliation."""

import logging

from celery import shared_task

from control_plane.reconciliation import purging
from control_plane.reconciliation.reconcile import reconcile as reconcile_once
from penstock.contract.errors import BrokerUnavailable

_log = logging.getLogger(__name__)


@shared_task(name="cluster.drive_closed")
def drive_closed() -> None:
    """One round over closed tenants; what waits for an invoice or for brokers is looked at again the next time."""
    purging.drive_closed()


@shared_task(name="cluster.reconcile")
def reconcile() -> None:
    """Compare once; brokers that are away are compared the next time."""
    try:
        reconcile_once()
    except BrokerUnavailable as error:
        _log.warning("nothing was reconciled", extra={"error": error.message})
