"""Reads which process does what."""

from control_plane.processes.actions import WORKER
from control_plane.processes.models import Heartbeat, Lease

FRESH_S = 20.0
"""An older heartbeat means that no worker sweeps: several sweeps were missed."""


def last_beat() -> Heartbeat | None:
    """The workers' last heartbeat; None when there was none yet."""
    return Heartbeat.objects.filter(kind=WORKER).first()


def holder_of(lease: str) -> str:
    """The process that held the lease last; empty before the first."""
    return Lease.objects.filter(name=lease).values_list("holder", flat=True).first() or ""
