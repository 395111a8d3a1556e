"""An invoice that is void is proven as any other, and the report says that nothing of it is to be paid, and why."""

import pytest

from penstock.cli.verify_invoice import _print
from penstock.verification.findings import Kind, Verdict, Void
from tests.unit.verification.honest import RETURNS, Service, world
from tests.unit.verification.stored_log import BEGIN_MS, StoredLog

SINCE = "2026-11-29T10:00:00.123456+00:00"


def credited_in_whole() -> Service:
    """All of the first invoice was lost, and a credit note gives it back."""
    returns = StoredLog(0, RETURNS, "returns")
    returns.write(20, BEGIN_MS + 2)
    service = Service(returns)
    service.cut()
    size = len(returns.batches[0])
    service.lose_from(returns, 0)
    service.cut(credits=[("inv_1", returns, 0, 20, size)])
    service.shown["inv_1"]["void_at"] = SINCE
    return service


def test_what_an_operator_took_back_says_so_with_its_time_and_where_the_reason_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    service = world()
    assert service.verify("inv_2").void is None
    service.shown["inv_2"]["void_at"] = SINCE
    report = service.verify("inv_2")
    assert report.verdict is Verdict.PROVEN
    assert report.void == Void(at="2026-11-29 10:00:00Z", credit_notes=())
    assert report.to_dict()["void"] == {"at": "2026-11-29 10:00:00Z", "credit_notes": ()}
    _print(report)
    told = " ".join(capsys.readouterr().out.split())
    assert "inv_2: VOID since 2026-11-29 10:00:00Z: an operator took it back" in told
    assert "receivable.void" in told and "nothing of it is to be paid" in told


def test_what_credit_notes_give_back_as_a_whole_names_them() -> None:
    report = credited_in_whole().verify("inv_1")
    assert report.verdict is Verdict.PROVEN, report.problems
    assert report.void == Void(at="2026-11-29 10:00:00Z", credit_notes=("cn_1",))
    assert "given back as a whole by cn_1" in str(report.void)


@pytest.mark.parametrize("said", ["yesterday", "", 5, True, "2026-11-29T10:00:00"])
def test_a_time_that_is_none_is_named(said: object) -> None:
    service = world()
    service.shown["inv_2"]["void_at"] = said
    report = service.verify("inv_2")
    assert {problem.kind for problem in report.problems} == {Kind.DOCUMENT_ALTERED} and report.void is None
