"""The documents of invoices made from a cluster's own cuts, and a stand-in for the control plane that serves them."""

import copy
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.contract.errors import NotFound
from penstock.contract.ids import TopicId
from penstock.rules.rating import PriceBook
from penstock.rules.timestamps import day_of
from tests.integration.brokers import Tenant
from tests.integration.metering.usage import Metered
from tests.unit.verification.honest import chained, rated, sha256_of, shown
from tests.waiting import PATIENCE_S

BOOK = PriceBook.read(
    json.loads(
        (Path(__file__).parents[3] / "billing/price_books/standard-1.json").read_text(encoding="utf-8")
    )
)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Billing:
    """What a control plane would say of one tenant of a real cluster; anything in it may be altered."""

    def __init__(self, usage: Metered, tenant: Tenant) -> None:
        self.usage = usage
        self.tenant = tenant
        self.begins_ms = now_ms()
        self.ends_ms = 0
        self.pending_ms = 0
        """The end of a period that the brokers could not answer for yet."""
        self.chain_items: list[dict[str, Any]] = []
        self.documents: dict[str, dict[str, Any]] = {}
        self.shown: dict[str, dict[str, Any]] = {}
        prices = {
            "format": 1,
            "kind": "prices",
            "tenant": tenant.name,
            "effective_from_ms": self.begins_ms,
            "price_book": BOOK.document(),
        }
        self._enter("prices", "pa_1", prices, self.begins_ms)

    def end_period(self, topics: Mapping[TopicId, str]) -> dict[str, Any]:
        """End the period now, and bill what the brokers answer. Days go by the cut's reading alone: a test is short."""
        number = len(self.documents) + 1
        invoice, cut_id = f"inv_{number}", f"cut_{self.tenant.name}_{number}"
        before = self.documents.get(f"inv_{number - 1}")
        if not self.pending_ms:
            time.sleep(0.005)
            self.pending_ms = now_ms()
        end_ms = self.pending_ms
        head = self.chain_items[-1]
        answered = self.usage.cluster.admin.cut(
            cut_id,
            self.tenant.name,
            end_ms,
            previous_end_ms=self.ends_ms,
            billing=(head["sequence"], head["hash"]),
        ).readings
        assert [reading.message for reading in answered if reading.error] == []
        earlier = (
            {} if before is None else {(r["topic_id"], r["partition"]): r for r in before["cut"]["readings"]}
        )
        readings, partitions = [], []
        for reading in sorted(answered, key=lambda r: (r.topic_id, r.partition)):
            place = {"topic_id": reading.topic_id.hex(), "partition": reading.partition}
            old = earlier.get(
                (place["topic_id"], place["partition"]), {"end_offset": 0, "messages": 0, "bytes": 0}
            )
            row = {
                "day": day_of(max(reading.accepted_ms, 0)).isoformat(),
                "first_offset": old["end_offset"],
                "end_offset": reading.end_offset,
                "messages": reading.messages - old["messages"],
                "bytes": reading.stored_bytes - old["bytes"],
            }
            readings.append(
                {
                    **place,
                    "log_generation": reading.log_generation,
                    "end_offset": reading.end_offset,
                    "accepted_ms": reading.accepted_ms,
                    "messages": reading.messages,
                    "bytes": reading.stored_bytes,
                    "last": reading.last,
                }
            )
            partitions.append(
                {
                    "topic": topics[TopicId(reading.topic_id)],
                    **place,
                    "log_generation": reading.log_generation,
                    "start_offset": old["end_offset"],
                    "counts_from": old["end_offset"],
                    "end_offset": reading.end_offset,
                    "days": [row] if reading.end_offset > old["end_offset"] else [],
                }
            )
        begins_ms = self.begins_ms if before is None else before["period_end_ms"]
        document = {
            "format": 1,
            "kind": "invoice",
            "id": invoice,
            "number": number,
            "tenant": self.tenant.name,
            "period_start_ms": begins_ms,
            "period_end_ms": end_ms,
            "issued_at_ms": end_ms,
            "cut": {"id": cut_id, "readings": readings},
            "partitions": sorted(partitions, key=lambda p: (p["topic"], p["topic_id"], p["partition"])),
            "previous": None
            if before is None
            else {"id": before["id"], "number": number - 1, "document_sha256": sha256_of(before)},
            **rated(partitions, BOOK, invoice, begins_ms, end_ms),
        }
        self.documents[invoice] = document
        self._enter("invoice", invoice, document, end_ms)
        self.shown[invoice] = shown(document, [])
        self.ends_ms = end_ms
        self.pending_ms = 0
        return document

    def _enter(self, kind: str, name: str, document: dict[str, Any], at_ms: int) -> None:
        self.chain_items.append(chained(self.tenant.name, self.chain_items, kind, name, document, at_ms))

    # -- what a verifier asks for -------------------------------------------------------------------------------

    def invoice(self, invoice_id: str) -> Any:
        return copy.deepcopy(self.shown[invoice_id])

    def evidence(self, invoice_id: str) -> Any:
        if invoice_id not in self.documents:
            raise NotFound(f"invoice {invoice_id}: not here")
        return copy.deepcopy({"status": "issued", "gaps": [], "document": self.documents[invoice_id]})

    def chain(self) -> Sequence[Mapping[str, Any]]:
        return copy.deepcopy(self.chain_items)


@contextmanager
def served(billing: Billing) -> Iterator[str]:
    """The address of a server that answers as the control plane does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            value = self._answer(urlsplit(self.path).path.split("/")[2:])
            self.send_response(404 if value is None else 200)
            self.send_header("Content-Type", "application/json" if value else "application/problem+json")
            body = json.dumps(value or {"code": "not_found", "detail": "no such invoice"}).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _answer(self, path: list[str]) -> Any:
            if path == ["billing", "chain"]:
                return {"items": billing.chain(), "next": None}
            if path[:1] == ["invoices"] and path[1] in billing.documents:
                return billing.evidence(path[1]) if path[2:] == ["evidence"] else billing.invoice(path[1])
            return None

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the output is the test's."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)
