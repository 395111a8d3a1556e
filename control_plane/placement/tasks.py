"""Celery tasks of the placement app: one round of driving drains and moves, and one of the balancer."""

import logging

from celery import shared_task

from control_plane.placement.balancing import look
from control_plane.placement.driving import drive as drive_once
from penstock.contract.errors import BrokerUnavailable, PenstockError

_log = logging.getLogger(__name__)


@shared_task(name="placement.drive")
def drive() -> None:
    """One round; brokers that are away are asked the next time."""
    try:
        drive_once()
    except BrokerUnavailable as error:
        _log.warning("no placement was driven", extra={"error": error.message})


@shared_task(name="placement.balance")
def balance() -> None:
    """One round; what it may not do now is looked at the next time."""
    try:
        look()
    except PenstockError as error:
        _log.warning("the balancer did nothing", extra={"error": error.message})
