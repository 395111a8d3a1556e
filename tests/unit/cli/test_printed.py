"""`penstock invoice pdf` against a little server that answers as the service does."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

PDF = b"%PDF-1.7 a page"


def answered(asked: Asked) -> Answer:
    if asked.path.endswith("/inv_draft/pdf"):
        return Answer(status=404, body={"code": "NOT_FOUND", "title": "Not found", "detail": "it is a draft"})
    return Answer(body=PDF, headers={"Content-Type": "application/pdf"})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answered) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


@pytest.mark.parametrize(
    ("document", "path"),
    [("inv_3", "/v1/invoices/inv_3/pdf"), ("cn_1", "/v1/credit-notes/cn_1/pdf")],
)
def test_an_invoice_and_a_credit_note_are_kept_as_pdf(
    service: LittleServer, tmp_path: Path, document: str, path: str
) -> None:
    file = tmp_path / "a.pdf"
    ran = CliRunner().invoke(cli, ["invoice", "pdf", document, str(file)])
    assert ran.exit_code == 0, ran.output
    assert file.read_bytes() == PDF and service.asked[-1].path == path
    again = CliRunner().invoke(cli, ["invoice", "pdf", document, str(file)])
    assert again.exit_code == 2 and "is there already" in again.output
    shown = CliRunner().invoke(cli, ["invoice", "pdf", document, str(file), "--force", "--json"])
    assert f'"bytes": {len(PDF)}' in shown.stdout


def test_a_draft_leaves_no_file(service: LittleServer, tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    ran = CliRunner().invoke(cli, ["invoice", "pdf", "inv_draft", str(file)])
    assert ran.exit_code != 0 and list(tmp_path.iterdir()) == []
