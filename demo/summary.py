"""What the demo found out, each number from the source it names, and whether all of it agrees."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from demo.payment import Payment
from penstock.private_file import write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The content of summary.json."""

    tenants: int
    produced: int
    """Acknowledged to the producers."""
    consumed_distinct: int
    """Different flights that the groups' members were given."""
    duplicates_in_log: int
    """Messages that the brokers stored once more than once."""
    order_violations: int
    """Flights of one tail number that lie in the log behind a later one."""
    metered_messages: int
    """In Spark's data set `usage_day`."""
    invoiced_messages: int
    """On the invoices' lines."""
    metered_bytes: int
    """In Spark's data set `usage_day`."""
    log_bytes: int
    """Of the batches as the brokers stored them, read one by one."""
    invoiced_by_month: dict[str, int]
    """The same by the month in which their periods begin (UTC)."""
    invoiced_bytes: int
    delivered_received: int
    """Messages that the members were given, repetitions included."""
    delivered_metered: int
    """In Spark's data set `usage_day`; what a killed broker had not written yet is waived."""
    delivered_waived_max: int
    """What the members were given in the seconds before the kill that a broker may forget: no more can be waived."""
    invoices: int
    verified_invoices: int
    broker_killed: int
    acked_before_kill: int
    acked_while_down: int
    leaders_moved: int
    budget_messages: int
    """What a tenant was allowed to send to a topic of its own after that."""
    budget_sent: int
    """What the brokers took of it before they refused."""
    budget_stopped: bool
    """Whether they refused by the budget, within 1 % of its amount."""
    payment: Payment | None
    """What became of one tenant's invoices at the stand-in for Stripe; None: the load had none."""
    seconds: dict[str, float]
    """By stage."""

    def write(self, file: Path) -> None:
        write_private(file, json.dumps(asdict(self), indent=2) + "\n")
        file.chmod(0o644)

    def disagreements(self, flights: int, tenants: int) -> list[str]:
        """Everything that does not agree; empty when all does."""
        found = [
            f"{name}: {value:,} of {flights:,}"
            for name, value in (
                ("produced", self.produced),
                ("consumed_distinct", self.consumed_distinct),
                ("metered_messages", self.metered_messages),
                ("invoiced_messages", self.invoiced_messages),
            )
            if value != flights
        ]
        for name, value in (
            ("duplicates_in_log", self.duplicates_in_log),
            ("order_violations", self.order_violations),
        ):
            if value:
                found.append(f"{name}: {value:,}")
        if not self.metered_bytes == self.log_bytes == self.invoiced_bytes:
            found.append(
                f"bytes: {self.log_bytes:,} in the log, {self.metered_bytes:,} metered, "
                f"{self.invoiced_bytes:,} on invoices"
            )
        if self.delivered_metered > self.delivered_received:
            found.append(
                f"delivered_metered: {self.delivered_metered:,}, and {self.delivered_received:,} were received"
            )
        if self.delivered_metered < self.delivered_received - self.delivered_waived_max:
            found.append(
                f"delivered_metered: {self.delivered_metered:,} of {self.delivered_received:,} received, "
                f"and at most {self.delivered_waived_max:,} can be waived"
            )
        if self.tenants != tenants:
            found.append(f"tenants: {self.tenants} of {tenants}")
        if self.invoices < tenants:
            found.append(f"invoices: {self.invoices} for {tenants} tenants")
        if self.verified_invoices != self.invoices:
            found.append(f"verified_invoices: {self.verified_invoices} of {self.invoices}")
        if not self.budget_stopped:
            found.append(f"budget_stopped: {self.budget_sent:,} sent of {self.budget_messages:,} allowed")
        if self.payment is not None and not self.payment.agrees:
            found.append(f"payment: {self.payment}")
        for name, value in (
            ("acked_before_kill", self.acked_before_kill),
            ("acked_while_down", self.acked_while_down),
            ("leaders_moved", self.leaders_moved),
        ):
            if value <= 0:
                found.append(f"{name}: {value}")
        return found
