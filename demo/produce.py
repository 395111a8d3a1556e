"""The producing process: a client for each carrier sends its flights in order, all at one pace.

Usage: python -m demo.produce FLIGHTS|all CARRIERS|all. Reads the flights and tells {"ready", "carriers", "total"};
begins at a line on its input, which names the plan's file, then tells the counts.
"""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from demo.flights import Flight, NoFlights, read_flights
from demo.plan import ALL, NUMBER_HEADER, Plan, abandoned, tell
from demo.tenants import TOPIC
from penstock.asyncio import Client, Delivery, Producer
from penstock.contract.errors import PenstockError

TICK_S = 0.02
TELL_S = 0.2
DELIVERY_S = 120.0


class Count:
    """Messages by outcome."""

    def __init__(self) -> None:
        self.sent = self.acked = self.failed = 0
        self.first_failure = ""
        self.pending: list[Delivery] = []

    async def collect(self) -> None:
        """Count what has an outcome now."""
        waiting: list[Delivery] = []
        for delivery in self.pending:
            if not delivery.done():
                waiting.append(delivery)
                continue
            failure = delivery.exception()
            if failure is None:
                self.acked += 1
            else:
                self.failed += 1
                self.first_failure = self.first_failure or f"{failure.code.name}: {failure.message}"
        self.pending = waiting

    def tell(self, *, done: bool) -> None:
        tell(sent=self.sent, acked=self.acked, failed=self.failed, failure=self.first_failure, done=done)


async def produce(plan: Plan, flights: Sequence[Flight]) -> None:
    """Send everything; returns when each message has its outcome."""
    clients = {
        tenant.carrier: Client(bootstrap=list(plan.bootstrap), api_key=tenant.api_key)
        for tenant in plan.tenants
    }
    producers: dict[str, Producer[bytes, bytes]] = {
        carrier: client.producer(
            acks="all", compression="zstd", linger_ms=50, delivery_timeout_ms=DELIVERY_S * 1000
        )
        for carrier, client in clients.items()
    }
    count, parent = Count(), os.getppid()
    try:
        began = reported = time.monotonic()
        while count.sent < len(flights):
            now = time.monotonic()
            due = min(len(flights), int((now - began) / plan.seconds * len(flights)) + 1)
            for flight in flights[count.sent : due]:
                headers = [(NUMBER_HEADER, b"%d" % flight.number)]
                delivery = await producers[flight.carrier].send(
                    TOPIC, flight.value, flight.key, headers, flight.timestamp_ms
                )
                count.pending.append(delivery)
                count.sent += 1
            if now - reported >= TELL_S:
                reported = now
                await count.collect()
                count.tell(done=False)
                if abandoned(parent):
                    return
            await asyncio.sleep(max(0.0, TICK_S - (time.monotonic() - now)))
        for producer in producers.values():
            await producer.flush(DELIVERY_S)
        await count.collect()
        count.tell(done=True)
    finally:
        for client in clients.values():
            await client.close(5.0)


def main(most: int | None, carriers: int | None) -> int:
    try:
        flights = read_flights(most, carriers)
    except NoFlights as error:
        tell(error=str(error))
        return 1
    tell(ready=True, carriers=sorted({flight.carrier for flight in flights}), total=len(flights))
    plan_file = sys.stdin.readline().strip()
    if not plan_file:
        return 0
    try:
        asyncio.run(produce(Plan.read(Path(plan_file)), flights))
    except PenstockError as error:
        tell(error=f"{error.code.name}: {error.message}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*(None if argument == ALL else int(argument) for argument in sys.argv[1:3])))
