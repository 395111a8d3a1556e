"""An evidence bundle proves what was proven when it was made, without asking anyone; one that was altered is named."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from penstock.cli.__main__ import cli
from penstock.contract.anchor_documents import AnchorsDocument, leaf, signed_bytes
from penstock.contract.documents import document_sha256
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.records.seal import pack_seal
from penstock.rules.timestamps import day_of
from penstock.verification import bundle_file as records
from penstock.verification.anchors import DayAnchors
from penstock.verification.bundle_file import BundleWriter, Header
from penstock.verification.bundle_reads import Bundle
from penstock.verification.bundle_recording import (
    RecordedDocuments,
    RecordedReads,
    write_commitments,
    write_seal,
)
from penstock.verification.commitments import ChainPoint, Notes
from penstock.verification.findings import Kind, Report, Verdict
from penstock.verification.proving import prove
from tests.integration.rest.little_server import Answer, little_server
from tests.unit.verification.honest import TENANT, Service
from tests.unit.verification.stored_log import BEGIN_MS, DAY_MS, StoredLog
from tests.unit.verification.test_proving import two_days


def with_log(
    service: Service, file: Path, invoice: str = "inv_1", made_at_ms: int = BEGIN_MS + 30 * DAY_MS
) -> Report:
    """Record what proving reads; what it found then."""
    with file.open("wb") as out:
        writer = BundleWriter(
            out.write, Header(format=1, invoice=invoice, tenant=TENANT, made_at_ms=made_at_ms, log=True)
        )
        report = prove(invoice, RecordedDocuments(service, writer), RecordedReads(service, writer))
        writer.end()
    assert writer.bytes == file.stat().st_size
    return report


def without_log(service: Service, file: Path, invoice: str = "inv_1") -> None:
    """As the service writes it."""
    with file.open("wb") as out:
        writer = BundleWriter(
            out.write, Header(format=1, invoice=invoice, tenant=TENANT, made_at_ms=BEGIN_MS, log=False)
        )
        write_commitments(writer, service.commitments())
        for log in service.logs:
            topic_id = log.where.topic_id.hex()
            writer.add(records.Topic(topic_id=topic_id, name=log.name, partitions=log.where.partition + 1))
        writer.add(records.Shown(answer=service.invoice(invoice)))
        for name in service.documents:
            writer.add(records.Evidence(invoice=name, answer=service.evidence(name)))
        for item in service.chain():
            writer.add(records.Link(item=item))
        for log in service.logs:
            for seal in log.seals:
                write_seal(writer, log.where, pack_seal(seal))
        writer.end()


def proven(file: Path, invoice: str = "inv_1") -> Report:
    bundle = Bundle(file)
    return prove(invoice, bundle, bundle)


def test_a_bundle_with_the_log_shows_what_the_log_showed(tmp_path: Path) -> None:
    log, file = two_days(), tmp_path / "a.evidence"
    service = Service(log)
    service.cut()
    online = with_log(service, file)
    service.logs.clear()  # nothing of the service is left
    offline = proven(file)
    assert offline == online
    assert offline.verdict is Verdict.PROVEN
    assert [(one.batches, one.by_seals) for one in offline.partitions] == [(5, None)]


def test_without_the_log_seals_stand_in_and_cuts_for_the_rest(tmp_path: Path) -> None:
    log, file = two_days(), tmp_path / "a.evidence"
    service = Service(log)
    service.cut()
    without_log(service, file)
    report = proven(file)
    assert report.verdict is Verdict.PROVEN, report.problems
    (finding,) = report.partitions
    assert (finding.by_seals, finding.by_cuts, finding.messages) == ((0, 20), (20, 25), 25)


def test_without_the_log_what_nothing_shows_is_named(tmp_path: Path) -> None:
    log, file = StoredLog(), tmp_path / "a.evidence"
    log.write(4, BEGIN_MS + 1)
    log.write(6, BEGIN_MS + DAY_MS + 1)
    service = Service(log)
    service.cut()
    without_log(service, file)
    report = proven(file)
    assert report.verdict is Verdict.PARTLY
    assert {one.kind for one in report.problems} == {Kind.UNPROVEN}


def test_a_later_invoice_is_compared_with_the_one_before(tmp_path: Path) -> None:
    log, file = two_days(), tmp_path / "a.evidence"
    service = Service(log)
    service.cut()
    log.write(3, service.period_begins_ms + 1)
    service.cut()
    online = with_log(service, file, "inv_2")
    assert proven(file, "inv_2") == online and online.proven


def test_a_lying_service_is_named_in_both_kinds_of_bundle(tmp_path: Path) -> None:
    log, file = two_days(), tmp_path / "a.evidence"
    service = Service(log)
    service.cut()
    service.documents["inv_1"]["partitions"][0]["days"][0]["messages"] += 1
    for make in (with_log, without_log):
        make(service, file)
        report = proven(file)
        assert report.verdict is Verdict.WRONG
        assert Kind.DOCUMENT_ALTERED in {one.kind for one in report.problems}


def swap(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[4], lines[3], *lines[5:]]


def larger(lines: list[bytes]) -> list[bytes]:
    at = next(n for n, line in enumerate(lines) if b'"record":"shown"' in line)
    return [*lines[:at], re.sub(rb'"total_micro":(\d)', rb'"total_micro":9\1', lines[at]), *lines[at + 1 :]]


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (larger, r"altered: line \d+ is not as it was written \(shown\)"),
        (swap, "altered: line 4 is not as it was written"),
        (lambda lines: [*lines[:3], *lines[4:]], "altered: line 4 is not"),
        (lambda lines: lines[:-1], "ends behind line"),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], r"line \d+ is truncated"),
        (lambda lines: [*lines, lines[-1]], "stands behind its end"),
        (lambda lines: [], "ends behind line 0"),
        (lambda lines: [b"PK\x03\x04 not ours"], "is no evidence bundle"),
        (lambda lines: [b"\x00" * 70 + b"\n"], "is no evidence bundle"),
        (lambda lines: lines[1:], "altered: line 1 is not"),
    ],
)
def test_an_altered_bundle_is_named(
    alter: Callable[[list[bytes]], list[bytes]], said: str, tmp_path: Path
) -> None:
    service, file = Service(two_days()), tmp_path / "a.evidence"
    service.cut()
    without_log(service, file)
    file.write_bytes(b"".join(alter(file.read_bytes().splitlines(keepends=True))))
    with pytest.raises(InvalidRequest, match=said):
        Bundle(file)


def hashed(*texts: bytes) -> bytes:
    """Lines of a bundle by someone who knows how they are hashed."""
    digest, lines = bytes(32), b""
    for text in texts:
        digest = hashlib.sha256(digest + text).digest()
        lines += digest.hex().encode() + b" " + text + b"\n"
    return lines


HEADER = b'{"record":"header","format":1,"invoice":"inv_1","tenant":"tn_1","made_at_ms":1,"log":false}'
END = b'{"record":"end","records":%d}'
TOPIC = b'{"record":"topic","topic_id":"00000000000000000000000000000000","name":"a","partitions":%d}'
SHOWN = b'{"record":"shown","answer":{}}'
EVIDENCE = b'{"record":"evidence","invoice":"inv_1","answer":{}}'
_OF_LOG = b'"topic_id":"00000000000000000000000000000000","partition":0'
READ = (
    b'{"record":"read",%s,"offset":0,"end_offset":1,"bytes_max":1,"error":0,"message":"","stamps":"","batches":"",'
    b'"log_start_offset":0,"high_watermark":1}' % _OF_LOG
)
REFUSAL = b'{"record":"refusal",%s,"of":"log","code":1,"message":""}' % _OF_LOG


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((END % 1,), "the header must be the first"),
        ((HEADER, HEADER, END % 2), "the header must be the first"),
        ((HEADER, END % 7), "says that 7 records"),
        ((HEADER, b'{"record":"news"}', END % 2), "is no record"),
        ((HEADER, b"[" * 100_000, END % 2), "is no record"),
        ((HEADER.replace(b'"format":1', b'"format":2'), END % 1), "is no record"),
        ((HEADER, TOPIC % 10_001, END % 2), "is no record: Expected `int` <= 10000"),
        ((HEADER, TOPIC % 1, TOPIC % 2, END % 3), "altered: a second topic 00"),
        ((HEADER, SHOWN, SHOWN, END % 3), "altered: a second answer"),
        ((HEADER, EVIDENCE, EVIDENCE, END % 3), "altered: a second document of inv_1"),
        ((HEADER, READ, END % 2), "says that it is without the log, and holds an answer of 00"),
        ((HEADER, REFUSAL, END % 2), "says that it is without the log, and holds an answer of 00"),
        (
            (HEADER, b'{"record":"seal","topic_id":"%s","partition":0,"seal":"AAAA"}' % (b"0" * 32), END % 2),
            "seal",
        ),
    ],
)
def test_a_bundle_of_other_records_is_refused(texts: tuple[bytes, ...], said: str, tmp_path: Path) -> None:
    file = tmp_path / "a.evidence"
    file.write_bytes(hashed(*texts))
    with pytest.raises(InvalidRequest, match=said):
        Bundle(file)


def test_a_bundle_without_documents_proves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.evidence"
    file.write_bytes(hashed(HEADER, END % 1))
    with pytest.raises((InvalidRequest, NotFound), match="inv_1"):
        proven(file)


def test_the_command_checks_a_bundle_and_connects_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PENSTOCK_BOOTSTRAP", "PENSTOCK_API_URL", "PENSTOCK_API_KEY", "PENSTOCK_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "none.toml"))
    service, file = Service(two_days()), tmp_path / "a.evidence"
    service.cut()
    with_log(service, file)
    ran = CliRunner().invoke(cli, ["verify-invoice", "--bundle", str(file)])
    assert ran.exit_code == 0, ran.output
    assert "inv_1: proven" in ran.output and "with the log" in ran.output
    assert not (tmp_path / "billing-notes.json").exists(), "nothing is noted: it may be anyone's"
    other = CliRunner().invoke(cli, ["verify-invoice", "inv_2", "--bundle", str(file)])
    assert other.exit_code == 1 and "of inv_1, not of inv_2" in str(other.exception)
    service.documents["inv_1"]["lines"][0]["quantity"] += 1
    with_log(service, file)
    assert CliRunner().invoke(cli, ["verify-invoice", "--bundle", str(file)]).exit_code == 5
    assert CliRunner().invoke(cli, ["verify-invoice"]).exit_code == 2


# -- what was kept elsewhere ---------------------------------------------------------------------------------------


def forged() -> Service:
    """All of it made up with more messages: log, seals, cuts, documents and chain agree."""
    log = two_days()
    log.write(7, BEGIN_MS + 2 * DAY_MS)
    service = Service(log)
    service.cut()
    return service


def bundle_of(service: Service, file: Path) -> Path:
    with_log(service, file)
    return file


def test_a_forged_bundle_that_agrees_with_itself_is_refused_by_an_anchor_alone(tmp_path: Path) -> None:
    honest, file = Service(two_days()), tmp_path / "forged.evidence"
    honest.cut()
    bundle = Bundle(bundle_of(forged(), file))
    assert prove("inv_1", bundle, bundle, from_bundle=True).verdict is Verdict.PROVEN
    report = prove("inv_1", bundle, bundle, from_bundle=True, anchors=[honest.head])
    assert report.verdict is Verdict.WRONG
    (problem,) = report.problems
    assert problem.kind is Kind.HISTORY_ALTERED and "the anchor has another entry 2" in str(problem)
    true = Bundle(bundle_of(honest, tmp_path / "true.evidence"))
    assert prove("inv_1", true, true, from_bundle=True, anchors=[honest.head]).verdict is Verdict.PROVEN


def test_an_anchor_that_says_nothing_of_the_invoice_shows_nothing(tmp_path: Path) -> None:
    service = Service(two_days())
    before = service.head
    service.cut()
    bundle = Bundle(bundle_of(service, tmp_path / "a.evidence"))
    service.logs[0].write(3, service.period_begins_ms + 1)
    service.cut()
    for anchor, said in (
        (before, "is older: it says nothing of the invoice"),
        (service.head, "the bundle's ends at 2"),
    ):
        report = prove("inv_1", bundle, bundle, from_bundle=True, anchors=[anchor])
        assert report.verdict is Verdict.PARTLY
        assert [one.kind for one in report.problems] == [Kind.UNPROVEN] and said in str(report.problems[0])


def of_day(
    service: Service, day: str, secret: Ed25519PrivateKey, newest: ChainPoint | None = None
) -> dict[str, Any]:
    """What a service with this one tenant publishes at the day's end."""
    head = newest or service.head
    document = AnchorsDocument(
        format=1, kind="billing_anchors", issuer="Penstock", day=day, previous_sha256="0" * 64,
        leaves=(leaf(TENANT, day, head.sequence, head.hash),),
    )  # fmt: skip
    return {
        "document": msgspec.to_builtins(document),
        "document_sha256": document_sha256(document),
        "key": secret.public_key().public_bytes_raw().hex(),
        "signature": secret.sign(signed_bytes(document)).hex(),
    }


def test_a_published_day_refuses_a_forged_bundle_and_proves_an_honest_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "none.toml"))
    honest, secret = Service(two_days()), Ed25519PrivateKey.generate()
    begun = honest.head
    honest.cut()
    made_up, true = bundle_of(forged(), tmp_path / "f.evidence"), bundle_of(honest, tmp_path / "t.evidence")
    issued_ms = max(item["at_ms"] for item in honest.chain())
    late = day_of(issued_ms).isoformat()
    signed = of_day(honest, late, secret)
    key = signed["key"]

    def verified(bundle: Path, *more: str) -> Result:
        return CliRunner().invoke(cli, ["verify-invoice", "--bundle", str(bundle), *more])

    with little_server(lambda asked: Answer(body=signed)) as server:
        url = f"{server.url}/v1/anchors/{late}"
        held = verified(made_up, "--anchor", url)
        assert held.exit_code == 5 and f"the anchors of {late} hold none of its entries" in held.output
        proven = verified(true, "--anchor", url, "--anchor-key", key)
        assert (
            proven.exit_code == 0
            and f"the anchors of {late} by Penstock, signed by the key {key}" in proven.output
        )
        assert {one.path for one in server.asked} == {f"/v1/anchors/{late}"}
        assert not any("Authorization" in one.headers for one in server.asked), "no key goes there"
        other = verified(true, "--anchor", url, "--anchor-key", "ab" * 32)
        assert other.exit_code == 1 and "is signed by the key" in str(other.exception)
        replayed = verified(true, "--anchor", f"{server.url}/v1/anchors/1999-01-01")
        assert replayed.exit_code == 1 and "another day than was asked for" in str(replayed.exception)
        assert verified(true, "--anchor", f"{server.url}/kept?day={late}").exit_code == 0
        assert server.asked[-1].path == f"/kept?day={late}"
    assert verified(true, "--anchor-key", key).exit_code == 2
    early = DayAnchors(
        issuer="Penstock", day=late, key=key, leaves=frozenset([leaf(TENANT, late, 1, begun.hash)])
    )
    bundle = Bundle(true)
    report = prove("inv_1", bundle, bundle, from_bundle=True, anchors=[early])
    assert report.verdict is Verdict.PARTLY and "is older" in str(report.problems[0])
    last_of_all = DayAnchors(issuer="Penstock", day="9999-12-31", key=key, leaves=frozenset(["0" * 64]))
    report = prove("inv_1", bundle, bundle, from_bundle=True, anchors=[last_of_all])
    assert report.verdict is Verdict.WRONG and "of 9999-12-31 hold none" in str(report.problems[0])
    before_all = DayAnchors(issuer="Penstock", day="1999-01-01", key=key, leaves=frozenset(["0" * 64]))
    report = prove("inv_1", bundle, bundle, from_bundle=True, anchors=[before_all])
    assert report.verdict is Verdict.PARTLY and "of 1999-01-01, is older" in str(report.problems[0])


def test_a_published_day_after_the_bundle_was_made_is_not_compared_where_the_chain_has_gone_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "none.toml"))
    service, secret = Service(two_days()), Ed25519PrivateKey.generate()
    service.cut()
    entries = service.chain()
    made_ms = max(item["at_ms"] for item in entries)
    file = tmp_path / "t.evidence"
    with_log(service, file, made_at_ms=made_ms)
    day = day_of(made_ms).isoformat()
    copy, other = tmp_path / "a", tmp_path / "b"
    copy.write_text(json.dumps(of_day(service, day, secret, ChainPoint(sequence=9, hash="9" * 64))))
    other.write_text(json.dumps(of_day(service, day, secret)))

    def verified(bundle: Path, *anchors: Path) -> Result:
        named = [text for anchor in anchors for text in ("--anchor", str(anchor))]
        return CliRunner().invoke(cli, ["verify-invoice", "--bundle", str(bundle), *named])

    early = verified(file, copy)
    assert early.exit_code == 10 and "the bundle was made before that day's end" in early.output
    with_log(service, file, made_at_ms=DayAnchors(issuer="", day=day, key="", leaves=frozenset()).end_ms)
    assert verified(file, copy).exit_code == 5, "the bundle reaches to its end"
    assert verified(file, other).exit_code == 0
    older = tmp_path / "c"
    older.write_text(json.dumps({"sequence": 1, "hash": entries[0]["hash"]}))
    assert verified(file, older).exit_code == 10
    both = verified(file, other, older)
    assert both.exit_code == 0 and " and the anchor of entry 1" in both.output, "one that shows it is enough"
    assert verified(file, older, copy).exit_code == 5
    contrary = verified(file, other, other, copy)
    assert contrary.exit_code == 5 and f"documents of {day} are signed by one key" in contrary.output


@pytest.mark.parametrize(
    ("path", "answer", "text"),
    [
        ("/v1/anchors/2026-01-01", Answer(status=302, body={}), "status 302"),
        ("/v1/anchors/1999-01-01/", None, "another day"),
        ("/kept/1999-01-01.anchors", None, "another day"),
        ("/v1/anchors/1999%2D01-01", None, "another day"),
        ("/large", Answer(body=["0" * 1_000] * 17_000), "is no anchor: over"),
        ("/empty", Answer(status=204, body=None), "is no anchor"),
        ("/other", Answer(body=[]), "is no anchor"),
    ],
)
def test_what_an_address_answers_that_is_no_days_anchors_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, answer: Answer | None, text: str
) -> None:
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "none.toml"))
    service = Service(two_days())
    service.cut()
    file = bundle_of(service, tmp_path / "t.evidence")
    signed = Answer(body=of_day(service, "2026-01-02", Ed25519PrivateKey.generate()))
    with little_server(lambda asked: signed if answer is None else answer) as server:
        ran = CliRunner().invoke(
            cli, ["verify-invoice", "--bundle", str(file), "--anchor", f"{server.url}{path}"]
        )
    assert ran.exit_code == 1 and text in str(ran.exception)


def test_a_bundle_from_before_the_newest_note_is_not_called_wrong(tmp_path: Path) -> None:
    service = Service(two_days())
    service.cut()
    bundle = Bundle(bundle_of(service, tmp_path / "a.evidence"))
    later = ChainPoint(sequence=9, hash="0" * 64)
    report = prove("inv_1", bundle, bundle, from_bundle=True, notes=Notes(billing=later, invoices={}))
    assert report.verdict is Verdict.PARTLY
    assert "this machine noted entry 9" in str(report.problems[0])
    seen = Notes(billing=later, invoices={1: report.document_sha256})
    assert prove("inv_1", bundle, bundle, from_bundle=True, notes=seen).verdict is Verdict.PROVEN
    other = Notes(billing=ChainPoint(sequence=2, hash="0" * 64), invoices={})
    assert prove("inv_1", bundle, bundle, from_bundle=True, notes=other).verdict is Verdict.WRONG
    assert prove("inv_1", bundle, bundle, notes=seen).verdict is Verdict.WRONG, "online it has lost its end"


def test_the_command_compares_a_bundle_with_an_anchor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "none.toml"))
    honest = Service(two_days())
    honest.cut()
    anchor, file = tmp_path / "a.anchor", bundle_of(forged(), tmp_path / "a.evidence")
    alone = CliRunner().invoke(cli, ["verify-invoice", "--bundle", str(file)])
    assert alone.exit_code == 0 and "Compared with nothing but itself" in alone.output
    newest = {name: value for name, value in honest.chain()[-1].items() if name != "document"}
    anchor.write_text(json.dumps(newest))
    held = CliRunner().invoke(cli, ["verify-invoice", "--bundle", str(file), "--anchor", str(anchor)])
    assert held.exit_code == 5 and "another entry 2" in held.output
    assert "Compared with the anchor of entry 2." in held.output
    assert CliRunner().invoke(cli, ["verify-invoice", "inv_1", "--anchor", str(anchor)]).exit_code == 2
    for broken in (
        "",
        "[]",
        '{"sequence":0,"hash":"%s"}' % ("0" * 64),
        '{"sequence":1,"hash":"x"}',
        "[" * 9_999,
    ):
        anchor.write_text(broken)
        refused = CliRunner().invoke(cli, ["verify-invoice", "--bundle", str(file), "--anchor", str(anchor)])
        assert refused.exit_code == 1 and "is no anchor" in str(refused.exception)
