"""What a run of the whole service shows: its processes by zone and host, and the load's figures."""

from demo.summary import Summary
from hosts.ground import OUTSIDE_ZONE
from hosts.service import Service
from penstock.cli.output import print_table


def print_processes(service: Service) -> None:
    """Each process with its zone, host and address, and how long after its start it served."""
    ordered = sorted(
        service.ready, key=lambda one: (one.program.host.zone == OUTSIDE_ZONE, one.program.host.zone)
    )
    rows = []
    for one in ordered:
        host = one.program.host
        rows.append((host.zone, host.name, host.address, one.program.name, f"{one.seconds:.1f}"))
    print_table(("zone", "host", "address", "process", "ready after, s"), rows, title="Processes")


def print_load(summary: Summary) -> None:
    """What was sent, read, metered and billed."""
    producing_s = summary.seconds.get("messages", 0.0)
    rows: list[tuple[str, object]] = [
        ("tenants", summary.tenants),
        ("messages acknowledged", summary.produced),
        ("messages a second while producing", round(summary.produced / producing_s) if producing_s else "-"),
        ("different messages read by groups", summary.consumed_distinct),
        (
            "acknowledged before a broker was killed, and while it was down",
            f"{summary.acked_before_kill}, {summary.acked_while_down}",
        ),
        ("leaders that moved away from it", summary.leaders_moved),
        (
            "messages that are twice in the log, out of order in it",
            f"{summary.duplicates_in_log}, {summary.order_violations}",
        ),
        ("messages metered, invoiced", f"{summary.metered_messages}, {summary.invoiced_messages}"),
        (
            "bytes in the log, metered, invoiced",
            f"{summary.log_bytes}, {summary.metered_bytes}, {summary.invoiced_bytes}",
        ),
        ("invoices, of which proven from the log", f"{summary.invoices}, {summary.verified_invoices}"),
    ]
    print_table(("figure", ""), rows, title="The demo's load")
