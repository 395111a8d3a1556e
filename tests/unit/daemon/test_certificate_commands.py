"""The commands that make certificates: what they print for people and for programs, and their refusals of one line."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon import authority, certificates
from penstock.cli.__main__ import run

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "certificates"


def call(*arguments: str) -> int:
    return run(["cluster", "certificates", *arguments])


def as_json(printed: Printed, *arguments: str) -> Any:
    printed.readouterr()
    assert call(*arguments, "--json") == 0
    out, err = printed.readouterr()
    assert err == ""
    return json.loads(out)


def refusal(printed: Printed, *arguments: str) -> tuple[int, str, str]:
    """Exit code, message and remedy."""
    printed.readouterr()
    code = call(*arguments)
    out, err = printed.readouterr()
    message, remedy = err.splitlines()
    assert out == ""
    return code, message, remedy.strip()


def test_a_cluster_gets_its_certificates(folder: Path, capsys: Printed) -> None:
    assert call("init", "prod-1") == 0
    assert "certificates/ca.pem: valid until" in capsys.readouterr().err
    assert call("issue", "broker-1", "--host", "b1.example.com", "--host", "10.0.0.1") == 0
    assert call("issue", "control-plane", "--days", "9") == 0
    capsys.readouterr()
    assert call("show") == 0
    out, err = capsys.readouterr()
    rows = [line.split("\t") for line in out.splitlines()]
    assert [(row[0], row[1], row[5]) for row in rows] == [
        ("ca", "-", ""),
        ("broker-1", "b1.example.com 10.0.0.1", ""),
        ("control-plane", "-", "ends soon"),
    ]
    assert err == (
        "Ends soon: control-plane (days left: 8). `penstock cluster certificates renew` renews what is not the CA.\n"
    )


def test_a_program_gets_every_fact(folder: Path, capsys: Printed) -> None:
    made = as_json(capsys, "init", "prod-1")["certificates"]
    issued = as_json(capsys, "issue", "broker-1", "--host", "10.0.0.1")["certificates"]
    shown = as_json(capsys, "show")
    assert shown["cluster_id"] == "prod-1"
    assert shown["certificates"] == made + issued
    (broker,) = issued
    facts = certificates.described(certificates.load(folder / "broker-1.pem")[0])
    assert broker == {
        "name": "broker-1",
        "role": "broker",
        "file": "certificates/broker-1.pem",
        "identity": "penstock://prod-1/broker/1",
        "hosts": ["10.0.0.1"],
        "serial": facts.serial,
        "fingerprint_sha256": facts.fingerprint,
        "not_before": facts.not_before.isoformat(),
        "not_after": facts.not_after.isoformat(),
        "days_left": 364,
        "notes": [],
    }


def test_what_ends_soon_is_renewed_unless_names_are_given(folder: Path, capsys: Printed) -> None:
    now = datetime.now(UTC)
    authority.init(folder, "prod-1", now=now)
    authority.issue(folder, "broker-1", hosts=["10.0.0.1"], now=now, days=29)
    authority.issue(folder, "runner", now=now - timedelta(days=40), days=20)
    authority.issue(folder, "operator", now=now, days=32)

    def renewed(*arguments: str) -> list[str]:
        return [made["name"] for made in as_json(capsys, "renew", *arguments)["certificates"]]

    assert renewed() == ["broker-1", "runner"]
    assert renewed("--within", "32", "operator") == ["operator"]
    assert renewed("--days", "90", "--all") == ["broker-1", "runner", "operator"]
    assert renewed() == []
    assert call("renew") == 0
    assert capsys.readouterr().err == (
        "Nothing to renew: no certificate in certificates ends within 30 days.\n"
    )


def test_a_ca_is_changed_step_by_step(folder: Path, capsys: Printed) -> None:
    call("init", "prod-1")
    call("issue", "runner")
    first = certificates.load(folder / "ca.pem")
    assert call("renew", "--ca", "add") == 0
    assert "which holds both CAs, and then: renew --ca use" in capsys.readouterr().err
    assert call("renew", "--ca", "use") == 0
    assert "and then: renew --ca drop" in capsys.readouterr().err
    assert call("renew", "--ca", "drop") == 0
    assert "which holds the new CA alone" in capsys.readouterr().err
    (second,) = certificates.load(folder / "ca.pem")
    assert second not in first
    code, message, remedy = refusal(capsys, "renew", "--ca", "drop")
    assert (code, message) == (
        5,
        "Error: certificates/ca.pem: holds one CA; there is no old one [PRECONDITION_FAILED]",
    )
    assert remedy == "The steps are `penstock cluster certificates renew` with --ca add, --ca use, --ca drop."


def test_a_program_that_changes_a_ca_reads_what_was_made_and_dropped(folder: Path, capsys: Printed) -> None:
    call("init", "prod-1")
    call("issue", "runner")
    (old,) = certificates.load(folder / "ca.pem")
    assert [made["name"] for made in as_json(capsys, "renew", "--ca", "add")["certificates"]] == ["ca"]
    assert [made["name"] for made in as_json(capsys, "renew", "--ca", "use")["certificates"]] == ["runner"]
    assert as_json(capsys, "renew", "--ca", "drop") == {
        "folder": "certificates",
        "dropped": [certificates.described(old).fingerprint],
    }


def test_each_refusal_says_what_to_do(folder: Path, capsys: Printed) -> None:
    assert refusal(capsys, "show") == (
        3,
        "Error: certificates/ca.pem: no such file; there is no CA in this folder [NOT_FOUND]",
        "Make one with `penstock cluster certificates init`, or name its folder with --folder.",
    )
    call("init", "prod-1")
    assert refusal(capsys, "init", "prod-1") == (
        5,
        "Error: certificates/ca.pem: there is a CA in this folder [ALREADY_EXISTS]",
        "Change it with `penstock cluster certificates renew --ca add`, or name another folder with --folder.",
    )
    assert refusal(capsys, "issue", "redis")[:2] == (
        5,
        "Error: redis: no host given; those who call it check its DNS name or IP address [INVALID_REQUEST]",
    )
    call("issue", "runner")
    assert refusal(capsys, "issue", "runner") == (
        5,
        "Error: certificates/runner.pem: is there already [ALREADY_EXISTS]",
        "Renew it with `penstock cluster certificates renew`, or issue it with --replace.",
    )
    assert call("issue", "runner", "--replace") == 0
    for arguments in (["runner", "--all"], ["--all", "--ca", "add"], ["--ca", "drop", "--days", "3"]):
        assert call("renew", *arguments) == 2


def test_a_folder_that_cannot_be_written_is_named(folder: Path, capsys: Printed) -> None:
    folder.write_text("a file")
    assert call("init", "prod-1", "--folder", "certificates/below") == 5
    assert "certificates/below: Not a directory [CONFIGURATION]" in capsys.readouterr().err
