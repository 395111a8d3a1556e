"""From the log to proven invoices: the data sets, the cuts, the invoices over REST, and `penstock verify-invoice`."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet

from daemon.data_set_store import FolderStore
from demo.reach import ca_file
from demo.tenants import Tenant
from local import cores, guardian
from local.wake_ups import WakeUps
from penstock.admin.blocking import Admin
from penstock.contract.errors import PenstockError
from penstock.profiles import CA_FILE
from penstock.rest.client import RestClient
from penstock.rules.rating import grouped_amount

_SETTLED_S = 600.0
_POLL_S = 0.5
_CALL_S = 60.0
_VERIFY_S = 120.0
_AT_ONCE = 2


class NotSettled(PenstockError):
    """Usage did not become an invoice in time."""

    remedy: ClassVar[str] = (
        "Read the outputs of the runner and the worker (penstock dev status names the files)."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """One tenant's invoices, what it cost and how available the service was for it."""

    tenant: Tenant
    invoices: tuple[Mapping[str, Any], ...]
    cost_micro_per_million: int | None
    valid: int
    bad: int

    def quantity(self, meter: str) -> int:
        """Billed in all of them."""
        return sum(quantity_of(invoice, meter) for invoice in self.invoices)

    @property
    def total_micro(self) -> int:
        return sum(int(invoice["total_micro"] or 0) for invoice in self.invoices)

    @property
    def total(self) -> str:
        """The amount with its currency."""
        first = self.invoices[0]
        return f"{grouped_amount(self.total_micro, int(first['minor_digits']))} {first['currency']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the verifier said of one invoice."""

    invoice: str
    proven: bool
    problems: tuple[str, ...] = field(default=())


def quantity_of(invoice: Mapping[str, Any], meter: str) -> int:
    """Billed of a meter on one invoice."""
    return sum(int(line["quantity"]) for line in invoice["lines"] if line["meter"] == meter)


def data_set_sums(datasets: Path, tenants: Sequence[Tenant]) -> dict[str, int]:
    """Meter to quantity of these tenants in Spark's `usage_day`, the run that counts now; empty before there is one."""
    folder = datasets / "usage_day"
    content = FolderStore(datasets).current(folder.name)
    if content is None:
        return {}
    run = json.loads(content)["run_id"]
    try:
        manifest = json.loads((folder / f"run={run}" / "manifest.json").read_text())
    except FileNotFoundError:
        return {}
    wanted = {tenant.id for tenant in tenants}
    sums: dict[str, int] = {}
    for file in manifest["files"]:
        table = pyarrow.parquet.read_table(
            folder / f"run={file.get('run', run)}" / file["name"],
            columns=["tenant", "meter", "quantity"],
            partitioning=None,
        )
        for row in table.to_pylist():
            if row["tenant"] in wanted:
                sums[row["meter"]] = sums.get(row["meter"], 0) + int(row["quantity"])
    return sums


def wait_metered(
    datasets: Path, tenants: Sequence[Tenant], messages: int, within_s: float, tell: Callable[[int], None]
) -> dict[str, int]:
    """Wake the pipeline until its data set holds `messages`; the sums then, or those at the end of the time."""
    deadline = time.monotonic() + within_s
    wake_ups = WakeUps(datasets)
    while True:
        wake_ups.look()
        sums = data_set_sums(datasets, tenants)
        tell(sums.get("messages_in", 0))
        if sums.get("messages_in", 0) >= messages or time.monotonic() > deadline:
            return sums
        time.sleep(_POLL_S)


def cut_all(api_url: str, operator_token: str) -> None:
    """End every tenant's period now."""
    with RestClient(api_url, operator_token, ca_file(), timeout_s=_CALL_S) as rest:
        rest.post("/v1/billing/cuts", {"tenant": "all"})


def wait_issued(
    api_url: str, tenants: Sequence[Tenant], datasets: Path, tell: Callable[[int], None]
) -> list[Bill]:
    """Wait until every tenant has an invoice and none is a draft. Raises `NotSettled` naming what is missing."""
    deadline = time.monotonic() + _SETTLED_S
    done: dict[str, Bill] = {}
    wake_ups = WakeUps(datasets)
    while True:
        wake_ups.look()
        late = time.monotonic() > deadline
        open_now: list[str] = []
        for tenant in tenants:
            if tenant.carrier in done:
                continue
            bill, why = _bill(api_url, tenant)
            if bill is not None:
                done[tenant.carrier] = bill
                continue
            open_now.append(f"{tenant.carrier}: {why}")
            # One round makes the invoices of all: while one tenant waits the others are not asked.
            if not late:
                break
        tell(len(done))
        if not open_now:
            return [done[tenant.carrier] for tenant in tenants]
        if late:
            raise NotSettled("\n".join([f"{len(open_now)} tenants have no invoice yet", *open_now[:20]]))
        time.sleep(_POLL_S)


def _bill(api_url: str, tenant: Tenant) -> tuple[Bill | None, str]:
    """None and why while there is no invoice, or a draft."""
    with RestClient(api_url, tenant.api_key, ca_file(), timeout_s=_CALL_S) as rest:
        invoices = Admin(rest).invoices()
        if not invoices:
            return None, "no invoice"
        drafts = [invoice for invoice in invoices if invoice["issued_at"] is None]
        if drafts:
            gaps = "; ".join(drafts[0]["gaps"][:3])
            return None, f"{drafts[0]['id']} is a {drafts[0]['status']}" + (f": {gaps}" if gaps else "")
        costs = rest.get("/v1/costs", {"limit": 1})["total"]
        availability = list(rest.items("/v1/availability"))
    bill = Bill(
        tenant=tenant,
        invoices=tuple(invoices),
        cost_micro_per_million=costs["cost_micro_per_million_messages"],
        valid=sum(int(item["valid"]) for item in availability),
        bad=sum(int(item["bad"]) for item in availability),
    )
    return bill, ""


def verify_all(
    bootstrap: Sequence[str], api_url: str, bills: Sequence[Bill], tell: Callable[[int], None]
) -> list[Verdict]:
    """Prove every invoice with its tenant's key alone, as that tenant would."""
    wanted = [(bill.tenant, str(invoice["id"])) for bill in bills for invoice in bill.invoices]
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for verdict in pool.map(lambda one: _verify(bootstrap, api_url, *one), wanted):
            verdicts.append(verdict)
            tell(len(verdicts))
    return verdicts


def _verify(bootstrap: Sequence[str], api_url: str, tenant: Tenant, invoice: str) -> Verdict:
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "LANG": "C.UTF-8",
        "HOME": "/nonexistent",
        "PENSTOCK_BOOTSTRAP": ",".join(bootstrap),
        "PENSTOCK_API_KEY": tenant.api_key,
        "PENSTOCK_API_URL": api_url,
        **({} if (trusted := ca_file()) is None else {CA_FILE: trusted}),
        **cores.inherited(),
        **guardian.mark(),
    }
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "penstock.cli", "verify-invoice", invoice, "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=_VERIFY_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Verdict(invoice=invoice, proven=False, problems=(f"no verdict after {_VERIFY_S:g} s",))
    try:
        report = json.loads(ended.stdout)
    except ValueError:
        return Verdict(invoice=invoice, proven=False, problems=(ended.stderr.strip() or "no report",))
    problems = tuple(str(problem) for problem in report["problems"])
    return Verdict(
        invoice=invoice, proven=ended.returncode == 0 and bool(report["proven"]), problems=problems
    )
