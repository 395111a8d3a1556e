"""Honest services whose documents have every kind of row: what `row_alterations.py` alters."""

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from penstock.contract.documents import NO_TERMS
from penstock.contract.ids import TopicId
from penstock.verification.bundle_reads import Bundle
from penstock.verification.commitments import NOTHING_NOTED, Notes
from penstock.verification.findings import Report
from penstock.verification.proving import prove
from tests.unit.verification import test_charges_altered as charges
from tests.unit.verification import test_measured_check as usage
from tests.unit.verification import test_stated_tax
from tests.unit.verification.granting import grant
from tests.unit.verification.honest import PERIOD_MS, RETURNS, Service, world
from tests.unit.verification.stored_log import BEGIN_MS, DAY_MS, StoredLog
from tests.unit.verification.test_bundles import with_log

YOUNG = TopicId(b"y" * 16)


def plain() -> Service:
    """Format 1: several partitions, a loss that is credited, a deleted topic, other prices for the third period."""
    return world()


def charged() -> Service:
    """Format 2: fees, discounts, coupons, a minimum, grants, tax, a credit note; a new grant for the third period."""
    return charges.world()


def granted() -> Service:
    """`charged` with credit notes that an operator granted: parts and an amount of an invoice, an amount of another;
    and an invoice after them.
    """
    service = charges.world()
    grant(
        service,
        "inv_2",
        lines={"messages_in": 2_000_000, "bytes_in": 100_000},
        charges={("fee", "base"): 1_000_000},
    )
    grant(service, "inv_3", whole_micro=3_000_000)
    grant(service, "inv_2", whole_micro=1_500_000)
    service.logs[0].write(3, BEGIN_MS + 3 * PERIOD_MS + 1)
    service.cut()
    return service


def reopened() -> Service:
    """`charged`; the tenant came in the first period, and was closed for the end of the second and of the third."""
    orders = StoredLog(0)
    orders.write(4, BEGIN_MS + 1)
    service = Service(orders, book=charges.BOOK_2, terms=charges.TERMS)
    service.cut(open_ms=(BEGIN_MS + DAY_MS, BEGIN_MS + PERIOD_MS))
    orders.write(30, BEGIN_MS + PERIOD_MS + 6)
    service.cut(open_ms=(BEGIN_MS + PERIOD_MS, BEGIN_MS + PERIOD_MS + 3 * DAY_MS))
    orders.write(8, BEGIN_MS + 2 * PERIOD_MS + 6)
    service.cut(open_ms=(BEGIN_MS + 2 * PERIOD_MS + DAY_MS, BEGIN_MS + 3 * PERIOD_MS))
    return service


def redeemed() -> Service:
    """Two coupons: one is over with the second period and later prices drop it, the other one lasts."""
    partner, autumn, tenth = charges.TERMS.discounts
    autumn = replace(autumn, until_ms=BEGIN_MS + 2 * PERIOD_MS)
    orders = StoredLog(0)
    orders.write(20, BEGIN_MS + 1)
    terms = replace(charges.TERMS, discounts=(partner, autumn, tenth))
    service = Service(orders, book=charges.BOOK_2, terms=terms)
    service.cut()
    service.assign(charges.BOOK_2, BEGIN_MS + 2 * PERIOD_MS, replace(terms, discounts=(partner, tenth)))
    orders.write(30, BEGIN_MS + PERIOD_MS + 1)
    service.cut()
    winter = replace(tenth, id="coupon_WINTER")
    service.assign(charges.BOOK_2, BEGIN_MS + 3 * PERIOD_MS, replace(terms, discounts=(tenth, winter)))
    for period in (2, 3):
        orders.write(30, BEGIN_MS + period * PERIOD_MS + 1)
        service.cut()
    return service


def taxed() -> Service:
    """With a tax that is stated."""
    return test_stated_tax.service()


class Bundled(Service):
    """Proven from the records of its bundle alone, of `inv_2`, with hashes that agree with them."""

    def verify(self, invoice: str = "inv_2", notes: Notes = NOTHING_NOTED, **options: Any) -> Report:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "a.evidence"
            with file.open("wb") as out:
                digest = bytes(32)
                for record in self.records:
                    text = json.dumps(record).encode()
                    digest = hashlib.sha256(digest + text).digest()
                    out.write(digest.hex().encode() + b" " + text + b"\n")
            bundle = Bundle(file)
            return prove(invoice, bundle, bundle, from_bundle=True, made_ms=bundle.header.made_at_ms)


def bundled() -> Service:
    """`plain` with the log in a bundle."""
    service = world()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "a.evidence"
        with_log(service, file, "inv_2")
        lines = file.read_bytes().splitlines()
    service.__class__ = Bundled
    service.records = [json.loads(line.partition(b" ")[2]) for line in lines]
    return service


def measured() -> Service:
    """Rows of every kind of meter, each as large as it can be: what came late, a deleted topic, and a young one."""
    orders, returns = StoredLog(0), StoredLog(0, RETURNS, "returns")
    orders.write(4, BEGIN_MS + DAY_MS + 1)
    returns.write(2, BEGIN_MS + DAY_MS + 2)
    size, less = len(orders.batches[0]), len(returns.batches[0])
    service = Service(orders, returns, book=usage.BOOK, terms=replace(NO_TERMS))
    row = usage.row
    service.cut(measured=_sorted(row(usage.MINUTES, 1, 1_440), row(usage.KEPT, 1, size * 1_440)))
    service.delete_topic(returns)
    service.cut(
        measured=_sorted(
            row(usage.MINUTES, 10, 1_440),
            row(usage.KEPT, 10, less * 1_440, topic="returns"),
            row(usage.ASKED, 10, 7, topic=""),
        )
    )
    young = StoredLog(0, YOUNG, "young")
    service.logs.append(young)
    young.write(1, BEGIN_MS + 21 * DAY_MS)
    service.cut(
        measured=_sorted(
            row(usage.MINUTES, 10, 1_440, topic="returns"),
            row(usage.MINUTES, 20, 1_440),
            row(usage.KEPT, 20, size * 1_440),
            row(usage.COPIES, 20, size * 1_440 * 32),
            row(usage.MINUTES, 21, 1_440) | {"topic": "young", "topic_id": YOUNG.hex()},
            row(usage.ASKED, 20, 7, topic=""),
            row(usage.SLOWED, 20, 10**9),
        )
    )
    return service


def _sorted(*rows: dict[str, object]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: (row["meter"], row["topic"], row["topic_id"], row["day"]))
