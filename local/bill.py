"""`penstock dev bill`: ends the caller's period now, as an operator may, and waits for the invoice."""

import time
from pathlib import Path
from typing import Any

import click

from daemon.data_set_store import StoreUnavailable
from local.access import data_option, directory_of
from local.service_layout import ServiceDirectory
from local.wake_ups import WakeUps
from penstock.cli.invocation import Command, current
from penstock.cli.invoice import total
from penstock.cli.output import print_json, progress, say
from penstock.cli.rest import rest_client
from penstock.cli.waits import SECONDS
from penstock.contract.errors import InvalidRequest, NotFound, PenstockError, TimedOut
from penstock.rest.client import RestClient

TIMEOUT_S = 300.0
_POLL_S = 0.25


@click.command("bill", cls=Command, examples=["penstock dev bill", "penstock dev bill --timeout 600"])
@data_option
@click.option("--timeout", type=SECONDS, default=TIMEOUT_S, show_default=True, help="Seconds to wait for it.")
def bill(data: Path | None, timeout: float) -> None:
    """End the billing period of the profile's tenant now, and wait for its invoice.

    A period ends by itself with the month; here one need not wait so long. The brokers say up to which offsets it
    goes, the usage pipeline counts, and the invoice is issued: half a minute, most of it Spark.
    """
    service = ServiceDirectory(directory_of(data))
    if not service.exists:
        raise NotFound(f"{service.path}: no control plane here: `penstock dev up` without --bare starts one")
    with rest_client() as own:
        tenant = str(next(own.items("/v1/tenants"))["id"])
        with progress("Billing"):
            ended = _cut(service, tenant)
            try:
                invoice = _issued(own, ended, timeout, WakeUps(service.datasets))
            except KeyboardInterrupt as stopped:
                stopped.add_note(
                    f"The period has ended, and invoice {ended} is issued all the same: penstock invoice list"
                )
                raise
    if current().json:
        print_json(invoice)
        return
    say(f"Invoice {invoice['number']} is issued: {total(invoice)}.")
    say(f"  penstock invoice show {invoice['id']} --open    what each line counts")
    say(f"  penstock verify-invoice {invoice['id']}         count it again from the log")


def _cut(service: ServiceDirectory, tenant: str) -> str:
    """The id of the invoice of the period that was ended."""
    token = service.operator_token_file.read_text(encoding="ascii").strip()
    with RestClient(service.load().api_url, token) as operator:
        (cut,) = operator.post("/v1/billing/cuts", {"tenant": tenant})["items"]
    return str(cut["invoice"])


def _issued(own: RestClient, invoice: str, timeout_s: float, wake_ups: WakeUps) -> dict[str, Any]:
    """The invoice once it is no draft any more, also when the control plane is away meanwhile. Raises `TimedOut`, and
    `InvalidRequest` where the pipeline cannot be woken.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            wake_ups.look()
        except StoreUnavailable as error:
            raise InvalidRequest(f"{error}; run this as who started the service") from error
        is_over = time.monotonic() > deadline
        try:
            found: dict[str, Any] = own.get(f"/v1/invoices/{invoice}")
        except PenstockError as error:
            if is_over or not error.retriable:
                raise
        else:
            if found["status"] != "draft":
                return found
        if is_over:
            raise TimedOut(
                f"invoice {invoice}: still a draft after {timeout_s:g} s; `penstock dev status` shows the pipeline"
            )
        time.sleep(_POLL_S)
