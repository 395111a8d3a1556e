"""What a machine notes of verifications: it never goes back, and what was noted once can be read ever after."""

import json
import os
import resource
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.errors import ConfigurationError, InvalidRequest
from penstock.verification.commitments import NOTHING_NOTED, ChainPoint
from penstock.verification.findings import Kind, Problem, Report, Verdict
from penstock.verification.notes import note, read_notes

SHA_A, SHA_B, SHA_C = "aa" * 32, "bb" * 32, "cc" * 32


def report(*kinds: Kind, **changes: Any) -> Report:
    """Of invoice 1 at entry 5 of the chain, with a problem of each kind."""
    fields: dict[str, Any] = {
        "invoice": "inv_1",
        "number": 1,
        "document_sha256": SHA_A,
        "tenant": "tn_1",
        "currency": "EUR",
        "minor_digits": 2,
        "period_start_ms": 0,
        "period_end_ms": 1,
        "cut": "cut_1",
        "price_book_sha256": SHA_C,
        "billing_sequence": 5,
        "billing_hash": SHA_B,
        "partitions": (),
        "lines": (),
        "billed_total_micro": 0,
        "due_total_micro": 0,
        "credited_total_micro": 0,
        "granted": (),
        "receipts": (),
        "problems": tuple(Problem(kind=kind, where="here", message="so") for kind in kinds),
    }
    return Report(**{**fields, **changes})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "notes.json"


def left_in(folder: Path) -> set[str]:
    """The files there, without the lock."""
    return {name for name in os.listdir(folder) if not name.endswith(".lock")}


def point(sequence: int, sha256: str = SHA_B) -> ChainPoint:
    return ChainPoint(sequence=sequence, hash=sha256)


def test_without_a_file_nothing_is_noted(file: Path) -> None:
    assert read_notes(file, "tn_1") == NOTHING_NOTED
    assert not file.exists()


def test_a_proven_invoice_and_its_chain_are_noted_in_a_folder_that_is_made(tmp_path: Path) -> None:
    file = tmp_path / "some" / "where" / "notes.json"
    note(file, report())
    noted = read_notes(file, "tn_1")
    assert (noted.billing, noted.invoices) == (point(5), {1: SHA_A})
    assert left_in(file.parent) == {file.name}


@pytest.mark.parametrize("kind", [Kind.UNPROVEN, Kind.UNCOMMITTED, Kind.CREDIT_DUE])
def test_of_a_partly_proven_invoice_only_the_chain_is_noted(file: Path, kind: Kind) -> None:
    partly = report(kind)
    assert partly.verdict is Verdict.PARTLY
    note(file, partly)
    noted = read_notes(file, "tn_1")
    assert (noted.billing, noted.invoices) == (point(5), {})


def test_an_invoice_that_was_proven_stays_noted_when_it_is_partly_proven_later(file: Path) -> None:
    note(file, report())
    note(file, report(Kind.UNPROVEN, document_sha256=SHA_C, billing_sequence=6))
    noted = read_notes(file, "tn_1")
    assert (noted.billing, noted.invoices) == (point(6), {1: SHA_A})


@pytest.mark.parametrize(
    "nothing",
    [report(Kind.HISTORY_ALTERED), report(Kind.UNPROVEN, Kind.DAY_DIFFERS), report(billing_sequence=0)],
)
def test_nothing_is_noted_of_what_is_wrong_or_without_a_chain(file: Path, nothing: Report) -> None:
    note(file, nothing)
    assert not file.exists()
    note(file, report())
    before = file.read_bytes()
    note(file, nothing)
    assert file.read_bytes() == before


def test_notes_do_not_go_back_when_an_older_verification_ends_later(file: Path) -> None:
    note(file, report(number=2, billing_sequence=7, billing_hash=SHA_C))
    note(file, report(number=1, billing_sequence=5))
    noted = read_notes(file, "tn_1")
    assert (noted.billing, noted.invoices) == (point(7, SHA_C), {1: SHA_A, 2: SHA_A})
    note(file, report(number=3, billing_sequence=8))
    assert read_notes(file, "tn_1").billing == point(8)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (report(billing_hash=SHA_C), "entry 5"),
        (report(document_sha256=SHA_C), "invoice 1"),
        (report(document_sha256=SHA_C, billing_sequence=9), "invoice 1"),
        (report(document_sha256=SHA_C, billing_sequence=3), "invoice 1"),
    ],
)
def test_another_history_that_was_noted_meanwhile_is_told_and_stays(
    file: Path, other: Report, named: str
) -> None:
    note(file, report())
    before = file.read_bytes()
    with pytest.raises(InvalidRequest, match=f"{named}.* noted meanwhile"):
        note(file, other)
    assert file.read_bytes() == before


def test_other_tenants_notes_stay(file: Path) -> None:
    note(file, report(tenant="tn_2", billing_sequence=9, document_sha256=SHA_C))
    note(file, report())
    note(file, report(tenant="größe", billing_sequence=1))
    assert (read_notes(file, "tn_2").billing, read_notes(file, "tn_2").invoices) == (point(9), {1: SHA_C})
    assert read_notes(file, "tn_1").billing == point(5)
    assert read_notes(file, "größe").billing == point(1)
    assert read_notes(file, "tn_3") == NOTHING_NOTED


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_only_the_owner_reads_and_writes_the_notes(file: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        note(file, report())
        note(file, report(number=2))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def noted_bytes(tmp_path: Path) -> bytes:
    other = tmp_path / "other.json"
    note(other, report())
    return other.read_bytes()


def damaged(tmp_path: Path) -> list[bytes]:
    whole = noted_bytes(tmp_path)
    values = json.loads(whole)
    invoices = values["tn_1"]["invoices"]
    return [
        *(whole[:size] for size in range(0, len(whole) - 1, 7)),
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"tn_1": {"billing": {"sequence": 1e400, "hash": "a"}, "invoices": {}}}',
        b'{"tn_1": {"billing": {"sequence": ' + b"9" * 5_000 + b', "hash": "a"}, "invoices": {}}}',
        b'{"tn_1": {"billing": null, "invoices": {}}}',
        b'{"tn_1": {"\\ud800": 1}}',
        whole.replace(b'"1":', b'"1\\n":'),
        whole.replace(b'"1":', b'"01":'),
        whole.replace(SHA_A.encode(), SHA_A.encode() + b"\\n"),
        json.dumps({**values, "tn_2": {"invoices": invoices}}).encode(),
    ]


def test_a_file_that_cannot_be_read_is_an_error_and_stays_as_it_is(file: Path, tmp_path: Path) -> None:
    for content in damaged(tmp_path):
        file.write_bytes(content)
        shown = content[:80]
        with pytest.raises(ConfigurationError, match="cannot be read"):
            read_notes(file, "tn_1")
            pytest.fail(f"read {shown!r}")
        with pytest.raises(ConfigurationError, match="cannot be read"):
            note(file, report())
            pytest.fail(f"noted over {shown!r}")
        assert file.read_bytes() == content


@pytest.mark.parametrize(
    "unreadable",
    [
        report(number=10**18),
        report(number=0),
        report(number=-1),
        report(billing_sequence=2**63),
        report(billing_hash=SHA_B + "\n"),
        report(document_sha256="no hash"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(file: Path, unreadable: Report) -> None:
    note(file, report(number=2, billing_sequence=1))
    before = file.read_bytes()
    with pytest.raises(InvalidRequest, match="cannot note"):
        note(file, unreadable)
    assert file.read_bytes() == before
    assert left_in(file.parent) == {file.name}


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="cannot be noted"):
        note(tmp_path / "file" / "notes.json", report())


def test_notes_that_cannot_be_written_whole_leave_the_old_ones_and_nothing_else(file: Path) -> None:
    note(file, report())
    before = file.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), limits[1]))
    try:
        with pytest.raises(ConfigurationError, match="cannot be noted: File too large"):
            note(file, report(number=2, billing_sequence=6))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_bytes() == before
    assert left_in(file.parent) == {file.name}


def test_verifications_beside_each_other_lose_nothing_and_readers_see_whole_files(file: Path) -> None:
    numbers = range(1, 41)
    note(file, report(number=1_000, billing_sequence=1))
    done = threading.Event()
    seen: list[int] = []
    failures: list[BaseException] = []

    def write(mine: range) -> None:
        try:
            for number in mine:
                note(file, report(number=number, billing_sequence=number))
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        try:
            while not done.is_set():
                billing = read_notes(file, "tn_1").billing
                assert billing is not None
                seen.append(billing.sequence)
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(numbers[first::4],)) for first in range(4)]
    reader.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    reader.join()
    assert failures == []
    noted = read_notes(file, "tn_1")
    assert (noted.billing, set(noted.invoices)) == (point(40), {*numbers, 1_000})
    assert seen == sorted(seen)
    assert left_in(file.parent) == {file.name}
