"""The evidence of an invoice made from a cluster's own readings and seals, and a stand-in that serves it over HTTP."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from data_plane.contract import usage_pb2
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.seal import pack_seal
from penstock.records.usage import Totals
from penstock.rules.rating import PriceBook, line_id, rate
from penstock.rules.usage_folding import day_of
from tests.integration.brokers import Tenant
from tests.integration.metering.usage import Metered

BOOK = PriceBook.read(
    json.loads(
        (Path(__file__).parents[3] / "billing/price_books/standard-1.json").read_text(encoding="utf-8")
    )
)
BEGIN_MS = 1_750_000_000_000
"""Before every message of a test."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def cut_evidence(
    usage: Metered, tenant: Tenant, topics: dict[TopicId, str], *, previous: dict[str, Any] | None = None
) -> dict[str, Any]:
    """End the tenant's period now and say what billing would: quantities are differences of cut readings."""
    before = {} if previous is None else {_place(part): part for part in previous["partitions"]}
    number = 1 if previous is None else previous["invoice"]["number"] + 1
    invoice, cut_id = f"inv_{number}", f"cut_{tenant.name}_{number}"
    begin_ms = BEGIN_MS if previous is None else previous["period_end_ms"]
    time.sleep(0.005)
    end_ms = now_ms()
    vector = usage.cluster.admin.cut(cut_id, tenant.name, end_ms)
    assert [reading.message for reading in vector if reading.error] == []
    readings = {
        (reading.topic_id.hex(), reading.partition): reading
        for record in usage.records()
        for reading in record.readings
        if reading.kind == usage_pb2.ReadingKind.CUT and reading.cut_id == cut_id
    }
    partitions, quantities = [], {"messages_in": 0, "bytes_in": 0}
    for place in sorted(readings):
        reading = readings[place]
        earlier = before.get(place, {"end_offset": 0, "totals": Totals()})
        totals = Totals.from_tuple(tuple(reading.totals))
        added = totals.since(earlier["totals"])
        quantities["messages_in"] += added.committed_messages
        quantities["bytes_in"] += added.committed_bytes
        row = {
            "day": day_of(reading.accepted_ms).isoformat(),
            "first_offset": earlier["end_offset"],
            "end_offset": reading.end_offset,
            "quantities": {"messages_in": added.committed_messages, "bytes_in": added.committed_bytes},
        }
        partitions.append(
            {
                "topic": topics[TopicId(reading.topic_id)],
                "topic_id": place[0],
                "partition": place[1],
                "log_generation": reading.log_generation,
                "start_offset": earlier["end_offset"],
                "end_offset": reading.end_offset,
                "days": [row] if reading.end_offset > earlier["end_offset"] else [],
                "totals": totals,
            }
        )
    rated = rate(BOOK, quantities)
    return {
        "period_end_ms": end_ms,
        "invoice": {
            "id": invoice,
            "number": number,
            "tenant": tenant.name,
            "status": "issued",
            "currency": BOOK.currency,
            "period_start": _text(begin_ms),
            "period_end": _text(end_ms),
            "total_micro": rated.total_micro,
            "gaps": [],
            "lines": [
                {
                    "id": line_id(invoice, line.meter, BOOK.sha256, begin_ms, end_ms),
                    "meter": line.meter,
                    "quantity": line.quantity,
                    "amount_micro": line.amount_micro,
                    "price_book_sha256": BOOK.sha256,
                }
                for line in rated.lines
            ],
        },
        "price_book": BOOK.document(),
        "previous_invoice": None if previous is None else previous["invoice"]["id"],
        "cut": {
            "id": cut_id,
            "readings": [
                {
                    "topic_id": reading.topic_id.hex(),
                    "partition": reading.partition,
                    "log_generation": reading.log_generation,
                    "end_offset": reading.end_offset,
                }
                for reading in vector
            ],
        },
        "partitions": partitions,
        "seals": seals_of(usage, sorted(readings)),
    }


def seals_of(usage: Metered, places: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """The seals in `__usage` of these partitions."""
    shown = []
    for topic_id, partition in places:
        where = TopicPartition(TopicId(bytes.fromhex(topic_id)), partition)
        for seal in usage.seals(where.topic_id, partition):
            shown.append(
                {
                    "topic_id": topic_id,
                    "partition": partition,
                    "base_offset": seal.base_offset,
                    "seal": base64.b64encode(pack_seal(seal)).decode(),
                }
            )
    return shown


@contextmanager
def served(*documents: dict[str, Any]) -> Iterator[str]:
    """The address of a server that gives each invoice's evidence, as the control plane does."""
    answers = {
        f"/v1/invoices/{document['invoice']['id']}/evidence": json.dumps(document, default=str).encode()
        for document in documents
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers.get(self.path)
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "application/json" if body else "application/problem+json")
            body = body or b'{"code": "not_found", "detail": "no such invoice"}'
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

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
        thread.join(5)


def _place(part: dict[str, Any]) -> tuple[str, int]:
    return part["topic_id"], part["partition"]


def _text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()
