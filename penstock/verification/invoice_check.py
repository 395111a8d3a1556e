"""The invoice as a whole: cut and offsets against the invoice before, lines and total against the prices.

Pure: what was counted of each partition comes in, the report goes out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from penstock.rules.rating import amount_text, credit, line_id, rate
from penstock.verification.evidence import BYTES, MESSAGES, Evidence, PartitionClaim
from penstock.verification.findings import Kind, LineFinding, PartitionFinding, Problem, Report


def check_evidence(evidence: Evidence, previous: Evidence | None) -> list[Problem]:
    """What is wrong with the claim before any batch is read: its cut, its bounds, its seals, its state."""
    problems: list[Problem] = []
    invoice = evidence.invoice
    if evidence.status != "issued":
        told = "; ".join(evidence.gaps) or f"it is a {evidence.status}"
        problems.append(Problem(kind=Kind.NOT_ISSUED, where=invoice, message=f"not issued: {told}"))
    for damaged in evidence.damaged_seals:
        problems.append(Problem(kind=Kind.SEAL_DAMAGED, where=invoice, message=damaged))
    if previous is not None:
        if previous.tenant != evidence.tenant:
            problems.append(
                Problem(
                    kind=Kind.CUT_DIFFERS, where=invoice, message="the invoice before is another tenant's"
                )
            )
        if previous.period_end_ms != evidence.period_start_ms:
            problems.append(
                Problem(
                    kind=Kind.CUT_DIFFERS,
                    where=invoice,
                    message=f"its period does not begin where that of {previous.invoice} ends",
                )
            )
    before = {} if previous is None else dict(previous.vector)
    ended = {where: end for (where, _), end in sorted(before.items(), key=lambda entry: entry[0][1])}
    claimed: set[tuple[object, int]] = set()
    for claim in evidence.partitions:
        if claim.key in claimed:
            problems.append(_about(claim, Kind.OFFSETS_NOT_CONTIGUOUS, "it stands on the invoice twice"))
        claimed.add(claim.key)
        cut = evidence.vector.get(claim.key)
        if cut != claim.end_offset:
            told = "is not in the cut" if cut is None else f"is cut at offset {cut}"
            problems.append(
                _about(claim, Kind.CUT_DIFFERS, f"{told}, the invoice counts up to {claim.end_offset}")
            )
        due = ended.get(claim.where, 0)
        if claim.start_offset != due:
            problems.append(
                _about(
                    claim,
                    Kind.OFFSETS_NOT_CONTIGUOUS,
                    f"the invoice counts from {claim.start_offset}, {due} is where the one before ended",
                )
            )
    for (where, generation), end in evidence.vector.items():
        if (where, generation) not in claimed and end > ended.get(where, 0):
            problems.append(
                Problem(
                    kind=Kind.PARTITION_OMITTED,
                    where=str(where),
                    message=f"cut at offset {end}, and the invoice does not count it",
                )
            )
    return problems


def omitted_partition(name: str, offset: int) -> Problem:
    """A partition with messages of the period that the invoice does not know."""
    return Problem(
        kind=Kind.PARTITION_OMITTED,
        where=name,
        message=f"offset {offset} was accepted in the period, and the invoice does not know the partition",
        offset=offset,
    )


def make_report(
    evidence: Evidence,
    problems: Sequence[Problem],
    findings: Sequence[PartitionFinding],
    *,
    price_book_sha256: str | None = None,
) -> Report:
    """Rate what was counted and compare every line and the total.

    `price_book_sha256` is the hash that the tenant has been promised, if he kept it.
    """
    book = evidence.price_book
    problems = list(problems)
    lost = {
        MESSAGES: sum(finding.lost_messages for finding in findings),
        BYTES: sum(finding.lost_bytes for finding in findings),
    }
    quantities = {
        MESSAGES: sum(finding.messages for finding in findings) + lost[MESSAGES],
        BYTES: sum(finding.bytes for finding in findings) + lost[BYTES],
    }
    for finding in findings:
        problems.extend(finding.problems)
    if price_book_sha256 is not None and book.sha256 != price_book_sha256:
        problems.append(
            Problem(
                kind=Kind.PRICE_DIFFERS,
                where=f"price book {book.name} {book.version}",
                message=f"has the hash {book.sha256}, {price_book_sha256} was promised",
            )
        )
    if book.currency != evidence.currency:
        problems.append(
            Problem(
                kind=Kind.PRICE_DIFFERS,
                where=evidence.invoice,
                message=f"is in {evidence.currency}, its prices in {book.currency}",
            )
        )
    rated = rate(book, quantities)
    billed = {line.meter: line for line in evidence.lines}
    if len(billed) != len(evidence.lines):
        problems.append(
            Problem(kind=Kind.LINE_DIFFERS, where=evidence.invoice, message="two lines are of one meter")
        )
    lines: list[LineFinding] = []
    for line in rated.lines:
        claimed = billed.pop(line.meter, None)
        lines.append(
            LineFinding(
                meter=line.meter,
                billed_quantity=None if claimed is None else claimed.quantity,
                counted_quantity=line.quantity,
                billed_amount_micro=None if claimed is None else claimed.amount_micro,
                counted_amount_micro=line.amount_micro,
                credited_quantity=lost.get(line.meter, 0),
            )
        )
        where = f"line {line.meter}"
        if claimed is None:
            problems.append(Problem(kind=Kind.LINE_DIFFERS, where=where, message="is not on the invoice"))
            continue
        if claimed.price_book_sha256 != book.sha256:
            problems.append(
                Problem(
                    kind=Kind.PRICE_DIFFERS,
                    where=where,
                    message=f"was rated with prices of the hash {claimed.price_book_sha256}, these have {book.sha256}",
                )
            )
        due = line_id(
            evidence.invoice,
            line.meter,
            claimed.price_book_sha256,
            evidence.period_start_ms,
            evidence.period_end_ms,
        )
        if claimed.id != due:
            problems.append(
                Problem(kind=Kind.LINE_DIFFERS, where=where, message=f"has the id {claimed.id}, {due} is due")
            )
        if claimed.quantity != line.quantity:
            problems.append(
                Problem(
                    kind=Kind.LINE_DIFFERS,
                    where=where,
                    message=f"{claimed.quantity} on the invoice, {line.quantity} in the log",
                )
            )
        if claimed.amount_micro != line.amount_micro:
            problems.append(
                Problem(
                    kind=Kind.AMOUNT_DIFFERS,
                    where=where,
                    message=f"{_money(claimed.amount_micro)} on the invoice, {_money(line.amount_micro)} by the prices",
                )
            )
    for meter, extra in sorted(billed.items()):
        problems.append(
            Problem(
                kind=Kind.LINE_DIFFERS,
                where=f"line {meter}",
                message=f"{_money(extra.amount_micro)} for what the prices do not name",
            )
        )
    problems.extend(_check_credits(evidence, quantities, lost))
    summed = sum(line.amount_micro for line in evidence.lines)
    if summed != evidence.total_micro:
        problems.append(
            Problem(
                kind=Kind.TOTAL_DIFFERS,
                where=evidence.invoice,
                message=f"the total is {_money(evidence.total_micro)}, its lines add up to {_money(summed)}",
            )
        )
    elif evidence.total_micro != rated.total_micro:
        problems.append(
            Problem(
                kind=Kind.TOTAL_DIFFERS,
                where=evidence.invoice,
                message=f"the total is {_money(evidence.total_micro)}, {_money(rated.total_micro)} by log and prices",
            )
        )
    return Report(
        invoice=evidence.invoice,
        tenant=evidence.tenant,
        currency=evidence.currency,
        minor_digits=book.minor_digits,
        period_start_ms=evidence.period_start_ms,
        period_end_ms=evidence.period_end_ms,
        cut=evidence.cut,
        price_book_sha256=book.sha256,
        partitions=tuple(findings),
        lines=tuple(lines),
        billed_total_micro=evidence.total_micro,
        counted_total_micro=rated.total_micro,
        credited_total_micro=sum(
            amount for credit_note in evidence.credits for _, _, amount in credit_note.lines
        ),
        problems=tuple(problems),
    )


def _check_credits(
    evidence: Evidence, quantities: Mapping[str, int], lost: Mapping[str, int]
) -> Iterator[Problem]:
    """The credit notes together must take off what the lost quantities cost by the invoice's prices."""
    credited: dict[str, tuple[int, int]] = {}
    for credit_note in evidence.credits:
        for meter, quantity, amount in credit_note.lines:
            before = credited.get(meter, (0, 0))
            credited[meter] = (before[0] + quantity, before[1] + amount)
    due = {line.meter: line for line in credit(evidence.price_book, quantities, lost).lines}
    for meter in sorted(due.keys() | credited.keys()):
        line = due.get(meter)
        wanted = (0, 0) if line is None else (line.quantity, line.amount_micro)
        told = credited.get(meter, (0, 0))
        if told != wanted:
            yield Problem(
                kind=Kind.CREDIT_DIFFERS,
                where=f"credit of {meter}",
                message=f"{told[0]} for {_money(told[1])} on credit notes, "
                f"{wanted[0]} for {_money(wanted[1])} were lost",
            )


def unknown_partitions(evidence: Evidence, live: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Partitions, (topic id hex, number), that the cluster has and the cut does not name, in order."""
    named = {(where.topic_id.hex(), where.partition) for where, _ in evidence.vector}
    return sorted(place for place in live if place not in named)


def _about(claim: PartitionClaim, kind: Kind, message: str) -> Problem:
    return Problem(kind=kind, where=claim.name, message=message)


def _money(amount_micro: int) -> str:
    """An amount in a message, also one that is no whole number of cents."""
    return amount_text(amount_micro, 2) if amount_micro % 10_000 == 0 else f"{amount_text(amount_micro, 6)}"
