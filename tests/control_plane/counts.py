"""Counts that a process keeps of its callers. A test begins without any, as a process after its start."""

from control_plane.audit.tallies import tallies
from control_plane.rate_counters import counters
from control_plane.rest.processor_time import processor_time
from control_plane.rest.tenant_rates import tenant_rates


def forget() -> None:
    """Every caller may call as if nothing had been asked before."""
    counters().forget_all()
    tenant_rates.forget_all()
    processor_time.forget_all()
    tallies().take()
