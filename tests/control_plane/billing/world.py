"""A tenant with cuts, and data sets that tell of them as Spark would."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from billing import import_actions, invoice_actions, period_actions, price_actions, queries
from billing.models import Cut, Invoice
from control_plane.audit.actor import system
from daemon.data_set_store import FolderStore
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.cut import CutEnd, cut_sha256
from penstock.rules.timestamps import time_ms
from tenants.actions import create_tenant
from tenants.models import Tenant
from tests.control_plane.billing.publishing import publish

TESTER = system("test")
TODAY = datetime.now(UTC).date()
STANDARD_1: dict[str, Any] = json.loads(
    (Path(price_actions.__file__).parent / "price_books" / "standard-1.json").read_text(encoding="utf-8")
)
"""The prices of these tests: an allowance, two tiers and cents, which a few thousand messages show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A day's part of a partition: [first, end) with one message an offset and `size` bytes."""

    topic: str = "orders"
    partition: int = 0
    first: int
    end: int
    size: int
    day: date = TODAY
    generation: int = 0
    """Of the log."""
    id: str = ""
    """The topic's, hex; made from its name when empty."""

    @property
    def topic_id(self) -> str:
        return self.id or topic_id(self.topic)


def topic_id(topic: str) -> str:
    return hashlib.md5(topic.encode(), usedforsecurity=False).hexdigest()


def vector_of(parts: Sequence[Part]) -> list[CutEnd]:
    """The ends of `parts`, with totals as if each log held these parts alone."""
    ends: dict[tuple[str, int, int], list[Part]] = {}
    for part in parts:
        ends.setdefault((part.topic_id, part.partition, part.generation), []).append(part)
    return [
        CutEnd(
            where=TopicPartition(TopicId(bytes.fromhex(topic)), partition),
            log_generation=generation,
            end_offset=max(part.end for part in here),
            accepted_ms=1_700_000_000_000 if any(part.end > part.first for part in here) else -1,
            messages=max(part.end for part in here),
            bytes=sum(part.size for part in here),
        )
        for (topic, partition, generation), here in ends.items()
    ]


def hash_of(cut: Cut, entries: Sequence[CutEnd]) -> str:
    """By which the brokers keep this answer."""
    return cut_sha256(cut.tenant.public_id, cut.public_id, time_ms(cut.period_end), entries)


@dataclass(slots=True)
class World:
    """Builds data sets row by row; `spark` publishes them, `bill` imports and finalizes as the task does."""

    datasets: Path
    priced: bool = True
    """Whether `STANDARD_1` holds from the beginning; else the first round publishes prices."""
    rows: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {name: [] for name in import_actions.ORDER}
    )

    def __post_init__(self) -> None:
        if not self.priced:
            return
        price_actions.publish_price_book(
            TESTER,
            document=STANDARD_1,
            effective_from=price_actions.BEGINNING,
            now=datetime.now(UTC),
        )

    def tenant(self, name: str, *, age: timedelta = timedelta(days=1)) -> Tenant:
        tenant = create_tenant(TESTER, name=name)
        Tenant.objects.filter(pk=tenant.pk).update(created_at=datetime.now(UTC) - age)
        tenant.refresh_from_db()
        return tenant

    def cut(self, tenant: Tenant, parts: Sequence[Part], *, end: datetime | None = None) -> Cut:
        """End the period; the brokers answer with the ends of `parts`."""
        cut = period_actions.close_period(TESTER, tenant.public_id, end=end or datetime.now(UTC))
        self.answer(cut, vector_of(parts))
        cut.refresh_from_db()
        return cut

    def answer(self, cut: Cut, entries: Sequence[CutEnd], sha256: str = "") -> None:
        """The brokers answer the cut with `entries`, and with the hash of these unless `sha256` says another."""
        period_actions.store_vector(cut.public_id, entries, sha256 or hash_of(cut, entries))

    def covered(self, cut: Cut, parts: Sequence[Part], **changes: Any) -> None:
        """Spark found everything; `changes` go into the coverage rows. A topic has the name of its last part."""
        names = {(part.topic_id, part.partition): part.topic for part in parts}
        for (of_topic, partition), topic in sorted(names.items(), key=lambda item: (item[1], item[0])):
            here = [p for p in parts if (p.topic_id, p.partition) == (of_topic, partition)]
            self.rows["cut_coverage"].append(
                {
                    "cut_id": cut.public_id,
                    "tenant": cut.tenant.public_id,
                    "topic_id": of_topic,
                    "topic": topic,
                    "partition": partition,
                    "log_generation": here[0].generation,
                    "start_offset": min(p.first for p in here),
                    "end_offset": max(p.end for p in here),
                    "status": "covered",
                    "reason": "",
                    "missing": "",
                    **changes,
                }
            )
        for part in parts:
            for meter, quantity in (("messages_in", part.end - part.first), ("bytes_in", part.size)):
                shared = {"tenant": cut.tenant.public_id, "topic_id": part.topic_id, "topic": part.topic}
                self.rows["cut_usage"].append(
                    {
                        **shared,
                        "cut_id": cut.public_id,
                        "partition": part.partition,
                        "log_generation": part.generation,
                        "day": part.day,
                        "meter": meter,
                        "quantity": quantity,
                        "first_offset": part.first,
                        "end_offset": part.end,
                    }
                )
                self.day(cut.tenant, part.topic, part.day, meter, quantity, of=part.topic_id)

    def day(self, tenant: Tenant, topic: str, day: date, meter: str, quantity: int, *, of: str = "") -> None:
        """Usage of a day, on top of what is there. `of`: the topic's id, made from its name when empty."""
        of = of or topic_id(topic)
        for row in self.rows["usage_day"]:
            if (row["tenant"], row["topic_id"], row["topic"], row["day"], row["meter"]) == (
                tenant.public_id,
                of,
                topic,
                day,
                meter,
            ):
                row["quantity"] += quantity
                return
        self.rows["usage_day"].append(
            {
                "tenant": tenant.public_id,
                "topic_id": of,
                "topic": topic,
                "day": day,
                "meter": meter,
                "quantity": quantity,
                "partitions": 1,
            }
        )

    def spark(self, *names: str) -> None:
        """Publish the data sets named, or all."""
        for name in names or import_actions.ORDER:
            publish(self.datasets, name, self.rows[name])

    def bill(self) -> dict[str, str]:
        """Import what is new and finalize what is complete; what became of the data sets."""
        told = import_actions.import_data_sets(FolderStore(self.datasets))
        for cut in queries.drafts_to_finalize().order_by("pk").values_list("public_id", flat=True):
            invoice_actions.finalize(cut)
        return told

    def invoice(self, cut: Cut) -> Invoice:
        return Invoice.objects.get(cut=cut)

    def lost(self, cut: Cut, part: Part) -> None:
        """A loss was declared below the end of an earlier cut: this one takes `part` back (data set `cut_usage`)."""
        for meter, quantity in (("messages_in", part.end - part.first), ("bytes_in", part.size)):
            self.rows["cut_usage"].append(
                {
                    "tenant": cut.tenant.public_id,
                    "topic_id": part.topic_id,
                    "topic": part.topic,
                    "cut_id": cut.public_id,
                    "partition": part.partition,
                    "log_generation": part.generation,
                    "day": part.day,
                    "meter": meter,
                    "quantity": -quantity,
                    "first_offset": part.first,
                    "end_offset": part.end,
                }
            )
            self.day(cut.tenant, part.topic, part.day, meter, -quantity)
