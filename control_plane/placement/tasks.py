"""Celery tasks of the placement app: one round of driving drains and moves, and one of the balancer."""

import logging

from celery import shared_task

from control_plane import looks, schedule
from control_plane.placement import driving
from control_plane.placement.balancing import look
from penstock.contract.errors import BrokerUnavailable, PenstockError

AT_REST_S = 10.0
"""Between rounds while nothing is ordered: brokers may have joined, and the service's own topics get more copies."""
_log = logging.getLogger(__name__)


@shared_task(name="placement.drive")
def drive() -> None:
    """One round; brokers that are away are asked the next time."""
    try:
        driving.drive()
    except BrokerUnavailable as error:
        _log.warning("no placement was driven", extra={"error": error.message})


@shared_task(name="placement.balance")
def balance() -> None:
    """One round; what it may not do now is looked at the next time."""
    try:
        look()
    except PenstockError as error:
        _log.warning("the balancer did nothing", extra={"error": error.message})


schedule.looks_first("placement.drive", looks.any_row(*driving.ORDERED), at_rest_s=AT_REST_S)
