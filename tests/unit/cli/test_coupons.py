"""`penstock coupon` sends what REST takes, and shows what it answers."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

COUPON = {
    "code": "SPRING-7Q2M", "basis_points": 2_000, "amount_micro": 0, "currency": "", "days": 90, "uses_max": 5,
    "used": 2, "reason": "spring", "from_at": "2027-01-01T00:00:00Z", "until_at": "2027-04-01T00:00:00Z",
    "ended_at": None,
}  # fmt: skip
DISCOUNT = {"id": "coupon_SPRING-7Q2M", "basis_points": 0, "amount_micro": 5_000_000, "currency": "USD"}
WINDOW = ["--days", "90", "--uses", "5", "--from", "2027-01-01T00:00:00Z", "--until", "2027-04-01T00:00:00Z"]


def answered(asked: Asked) -> Answer:
    if asked.path == "/v1/redeemed-coupons":
        return Answer(body={"discount": DISCOUNT})
    return Answer(body={"items": [COUPON], "next": None} if asked.method == "GET" else COUPON)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answered) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
        monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", "operator")
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["list"], "GET /v1/coupons"),
        (["create", "SPRING-7Q2M", "--percent", "20", *WINDOW, "--reason", "spring"], "POST /v1/coupons"),
        (["end", "SPRING-7Q2M"], "DELETE /v1/coupons/SPRING-7Q2M"),
    ],
)
def test_a_coupon_is_a_row(service: LittleServer, arguments: list[str], asked: str) -> None:
    ran = CliRunner().invoke(cli, ["coupon", *arguments])
    assert ran.exit_code == 0, ran.output
    shown = "SPRING-7Q2M\t20 %\t90\t2 of 5\t2027-01-01 00:00:00Z\t2027-04-01 00:00:00Z\t-\tspring"
    assert ran.stdout.splitlines() == [shown]
    assert [f"{one.method} {one.path.partition('?')[0]}" for one in service.asked] == [asked]


def test_a_discount_is_a_percentage_or_an_amount(service: LittleServer) -> None:
    for wrong in ([], ["--percent", "20", "--amount-micro", "5"]):
        ran = CliRunner().invoke(
            cli, ["coupon", "create", "SPRING-7Q2M", *wrong, *WINDOW, "--reason", "spring"]
        )
        assert ran.exit_code == 2 and not service.asked


def test_a_redeemed_code_says_what_it_gives(service: LittleServer) -> None:
    ran = CliRunner().invoke(cli, ["coupon", "redeem", "SPRING-7Q2M"])
    assert ran.exit_code == 0 and "5.00 USD a period" in ran.stderr and "coupon_SPRING-7Q2M" in ran.stderr
