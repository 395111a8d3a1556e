"""`penstock coupon`: operators make, list and end coupons; a tenant redeems a code once."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.cluster import operator_client, token_option
from penstock.cli.invocation import Group, current
from penstock.cli.invoice import moment
from penstock.cli.output import print_json, print_table, say
from penstock.cli.rest import rest_client
from penstock.cli.terms import points_text
from penstock.rest.client import segment
from penstock.rules.rating import grouped_amount

_ADDRESS = "/v1/coupons"
_timeout = click.option(
    "--timeout", type=float, default=15.0, show_default=True, help="Seconds to wait for an answer."
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
        found = list(rest.items(_ADDRESS, timeout_s=timeout))
    if current().json:
        print_json({"coupons": found})
        return
    _show(found)


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
@click.option("--amount-micro", type=click.IntRange(1), help="Of each period, in millionths of --currency.")
@click.option("--currency", default="", help="Of the amount, as USD.")
@click.option(
    "--days", type=click.IntRange(31), required=True, help="For periods that begin within so many days."
)
@click.option("--uses", type=click.IntRange(1), required=True, help="So many tenants can redeem it.")
@click.option("--from", "from_at", required=True, metavar="MOMENT", help="Redeemed from then on.")
@click.option("--until", "until_at", required=True, metavar="MOMENT", help="Redeemed before that.")
@click.option("--reason", required=True, help="Stands on invoices.")
@token_option
@_timeout
def coupon_create(
    code: str,
    percent: int | None,
    amount_micro: int | None,
    currency: str,
    days: int,
    uses: int,
    from_at: str,
    until_at: str,
    reason: str,
    token_file: Path | None,
    timeout: float,
) -> None:
    """Make a coupon that gives a discount to each tenant that redeems its code. Take a code that is hard to guess."""
    if (percent is None) == (amount_micro is None):
        raise click.UsageError("Name either --percent or --amount-micro")
    body = {
        "code": code,
        "basis_points": (percent or 0) * 100,
        "amount_micro": amount_micro or 0,
        "currency": currency,
        "days": days,
        "uses_max": uses,
        "from_at": from_at,
        "until_at": until_at,
        "reason": reason,
    }
    with operator_client(token_file) as rest:
        made = rest.post(_ADDRESS, body, timeout_s=timeout)
    if current().json:
        print_json(made)
        return
    _show([made])


@coupon.command("end", examples=["penstock coupon end SPRING-7Q2M --token-file operator.token"])
@click.argument("code", metavar="CODE")
@token_option
@_timeout
def coupon_end(code: str, token_file: Path | None, timeout: float) -> None:
    """Operators: end a coupon. No one redeems it any more; who has keeps the discount."""
    with operator_client(token_file) as rest:
        ended = rest.delete(f"{_ADDRESS}/{segment(code)}", timeout_s=timeout)
    if current().json:
        print_json(ended)
        return
    _show([ended])


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


def _show(found: list[dict[str, Any]]) -> None:
    print_table(
        ["code", "discount", "days", "used", "from", "until", "ended", "reason"],
        [
            [
                one["code"],
                _amount(one),
                one["days"],
                f"{one['used']} of {one['uses_max']}",
                moment(one["from_at"]),
                moment(one["until_at"]),
                "-" if one["ended_at"] is None else moment(one["ended_at"]),
                one["reason"],
            ]
            for one in found
        ],
        empty="No coupons yet: penstock coupon create",
    )


def _amount(one: dict[str, Any]) -> str:
    if one["basis_points"]:
        return points_text(one["basis_points"])
    return f"{grouped_amount(int(one['amount_micro']), 2)} {one['currency']} a period"
