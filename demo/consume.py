"""The reading process: two group members for each tenant, until its input ends.

Usage: python -m demo.consume PLAN_FILE. Tells {"ready"} once every partition has a member, then the counts; ends when
its input ends.
"""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

from demo.plan import GROUP, MEMBERS, NUMBER_HEADER, Plan, abandoned, tell
from demo.tenants import PARTITIONS, TOPIC, Tenant
from penstock.asyncio import Client
from penstock.contract.errors import PenstockError

POLL_S = 0.5
TELL_S = 0.2
JOINED_S = 90.0
CLOSE_S = 20.0


class Seen:
    """What the members were given. `received` counts repetitions too."""

    def __init__(self, total: int) -> None:
        self.flags = bytearray(total)
        self.received = self.distinct = self.unknown = 0
        self.by_member: dict[str, int] = {}
        self.assigned = 0
        """Partitions that a member reads now."""

    def note(self, member: str, numbers: list[int]) -> None:
        for number in numbers:
            if not 0 <= number < len(self.flags):
                self.unknown += 1
            elif not self.flags[number]:
                self.flags[number] = 1
                self.distinct += 1
        self.received += len(numbers)
        self.by_member[member] = self.by_member.get(member, 0) + len(numbers)


async def read(tenant: Tenant, number: int, client: Client, seen: Seen, ended: asyncio.Event) -> None:
    """One member's life."""
    member = f"{tenant.carrier}-{number}"
    seen.by_member[member] = 0

    def assigned(places: list[tuple[str, int]]) -> None:
        seen.assigned += len(places)

    def revoked(places: list[tuple[str, int]]) -> None:
        seen.assigned -= len(places)

    async with client.consumer(
        TOPIC, group=GROUP, auto_commit_interval_ms=2_000, on_assigned=assigned, on_revoked=revoked
    ) as consumer:
        while not ended.is_set():
            try:
                batches = await consumer.poll_batches(timeout=POLL_S)
            except PenstockError as error:
                if not error.retriable:
                    raise
                await asyncio.sleep(POLL_S)
                continue
            for batch in batches:
                seen.note(member, [_number(headers) for headers in batch.headers])


def _number(headers: list[tuple[str, bytes | None]]) -> int:
    for name, content in headers:
        if name == NUMBER_HEADER and content is not None:
            return int(content)
    return -1


async def consume(plan: Plan) -> None:
    """Read until the input ends."""
    seen, ended, parent = Seen(plan.total), asyncio.Event(), os.getppid()
    loop = asyncio.get_running_loop()

    def wait_for_end() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait_for_end, daemon=True).start()
    clients = [Client(bootstrap=list(plan.bootstrap), api_key=tenant.api_key) for tenant in plan.tenants]
    try:
        async with asyncio.TaskGroup() as tasks:
            for tenant, client in zip(plan.tenants, clients, strict=True):
                for number in range(1, MEMBERS + 1):
                    tasks.create_task(read(tenant, number, client, seen, ended))
            await _all_assigned(plan, seen)
            tell(ready=True)
            while not ended.is_set():
                tell(received=seen.received, distinct=seen.distinct)
                if abandoned(parent):
                    ended.set()
                try:
                    async with asyncio.timeout(TELL_S):
                        await ended.wait()
                except TimeoutError:
                    pass
    finally:
        for client in clients:
            await client.close(CLOSE_S)
    tell(
        received=seen.received,
        distinct=seen.distinct,
        unknown=seen.unknown,
        idle_members=sum(not count for count in seen.by_member.values()),
        done=True,
    )


async def _all_assigned(plan: Plan, seen: Seen) -> None:
    """Wait until every partition has a member; the first message must be read as it comes."""
    deadline = time.monotonic() + JOINED_S
    wanted = len(plan.tenants) * PARTITIONS
    while seen.assigned < wanted and time.monotonic() < deadline:
        tell(assigned=seen.assigned, wanted=wanted)
        await asyncio.sleep(TELL_S)


def main(plan_file: str) -> int:
    plan = Plan.read(Path(plan_file))
    try:
        asyncio.run(consume(plan))
    except BaseExceptionGroup as several:
        first: BaseException = several
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if not isinstance(first, PenstockError):
            raise
        tell(error=f"{first.code.name}: {first.message}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
