"""`penstock coupon`: operators make, list and end coupons; a tenant redeems a code once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from penstock.cli import described
from penstock.cli.cluster import operator_client, token_option
from penstock.cli.invocation import Group, current
from penstock.cli.invoice import moment
from penstock.cli.output import print_json, print_table, say
from penstock.cli.rest import rest_client
from penstock.cli.terms import points_text
from penstock.cli.waits import SECONDS
from penstock.contract.resources import COUPONS
from penstock.rest.client import segment
from penstock.rules.rating import grouped_amount

_ADDRESS = "/v1/coupons"
_COLUMNS: dict[str, Callable[[dict[str, Any]], object]] = {
    "code": lambda coupon: coupon["code"],
    "discount": lambda coupon: _amount(coupon),
    "days": lambda coupon: coupon["days"],
    "used": lambda coupon: f"{coupon['used']} of {coupon['uses_max']}",
    "from": lambda coupon: moment(coupon["from_at"]),
    "until": lambda coupon: moment(coupon["until_at"]),
    "ended": lambda coupon: "-" if coupon["ended_at"] is None else moment(coupon["ended_at"]),
    "reason": lambda coupon: coupon["reason"],
}
_timeout = click.option(
    "--timeout", type=SECONDS, default=15.0, show_default=True, help="Seconds to wait for an answer."
)


@click.group(name="coupon", cls=Group, path=("coupon",))
def coupon() -> None:
    """Coupons: redeem a code; for operators create, list, end."""


@coupon.command("list", examples=["penstock coupon list --token-file operator.token"])
@token_option
@_timeout
def coupon_list(token_file: Path | None, timeout: float) -> None:
    """Operators: list every coupon, and how many tenants have redeemed it."""
    with operator_client(token_file) as rest:
        coupons = list(rest.items(_ADDRESS, timeout_s=timeout))
    described.print_list("coupons", coupons, _COLUMNS, empty="No coupons yet: penstock coupon create")


@coupon.command(
    "create",
    short_help="Make a coupon, for operators.",
    examples=[
        "penstock coupon create SPRING-7Q2M --percent 20 --days 90 --uses 100 --from 2027-01-01T00:00:00Z"
        " --until 2027-04-01T00:00:00Z --reason 'Spring 2027' --token-file operator.token"
    ],
)
@click.argument("code", metavar="CODE")
@click.option("--percent", type=click.IntRange(1, 100), help="Of what each line costs.")
@described.options_to_make(COUPONS, without=("code", "basis_points"))
@token_option
@_timeout
def coupon_create(
    code: str, percent: int | None, token_file: Path | None, timeout: float, **given: Any
) -> None:
    """Make a coupon that gives a discount to each tenant that redeems its code. Take a code that is hard to guess."""
    if (percent is None) == (given["amount_micro"] is None):
        raise click.UsageError("Name either --percent or --amount-micro")
    body = described.body({"code": code, "basis_points": (percent or 0) * 100, **given})
    with operator_client(token_file) as rest:
        made = rest.post(_ADDRESS, body, timeout_s=timeout)
    _show(made)


@coupon.command("end", examples=["penstock coupon end SPRING-7Q2M --token-file operator.token"])
@click.argument("code", metavar="CODE")
@token_option
@_timeout
def coupon_end(code: str, token_file: Path | None, timeout: float) -> None:
    """Operators: end a coupon. No one redeems it any more; who has keeps the discount."""
    with operator_client(token_file) as rest:
        ended = rest.delete(f"{_ADDRESS}/{segment(code)}", timeout_s=timeout)
    _show(ended)


@coupon.command("redeem", examples=["penstock coupon redeem SPRING-7Q2M"])
@click.argument("code", metavar="CODE")
@_timeout
def coupon_redeem(code: str, timeout: float) -> None:
    """Redeem a code, once. The tenant's next periods have the discount."""
    with rest_client() as rest:
        found = rest.post("/v1/redeemed-coupons", {"code": code}, timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    one = found["discount"]
    say(
        f"{_amount(one)} for the periods that begin from now on, as {one['id']}. Your prices: penstock prices"
    )


def _show(coupon: dict[str, Any]) -> None:
    if current().json:
        print_json(coupon)
        return
    print_table(list(_COLUMNS), [[cell(coupon) for cell in _COLUMNS.values()]])


def _amount(one: dict[str, Any]) -> str:
    if one["basis_points"]:
        return points_text(one["basis_points"])
    return f"{grouped_amount(int(one['amount_micro']), 2)} {one['currency']} a period"
