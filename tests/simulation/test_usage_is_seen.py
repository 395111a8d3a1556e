"""With the timings that brokers have by default, usage stands in `__usage` within ten seconds."""

import asyncio
from dataclasses import replace

from data_plane.node.config import Timings
from tests.simulation.test_client_streams import BATCH, Streams, run_story
from tests.simulation.test_cuts import METERED

DEFAULT = Timings()
SEEN_S = 10.0


def test_messages_are_metered_within_ten_seconds_whenever_they_come() -> None:
    async def story(streams: Streams) -> None:
        loop, producer = asyncio.get_running_loop(), await streams.producing()
        accepted: list[tuple[int, float]] = []
        waits: list[float] = []

        async def look() -> None:
            while True:
                while accepted and accepted[0][0] < streams.replica.metered_offset:
                    waits.append(loop.time() - accepted.pop(0)[1])
                await asyncio.sleep(0.01)

        looking = asyncio.create_task(look())
        for count in range(1, 61):
            await producer.send(BATCH)
            await producer.errors_of(count)
            accepted.append((producer.results[-1].base_offset, loop.time()))
            await asyncio.sleep(0.7)
        await asyncio.sleep(SEEN_S)
        looking.cancel()
        assert len(waits) == 60, f"{len(accepted)} were not metered in {SEEN_S:g} s"
        assert max(waits) <= SEEN_S, f"the last to be seen took {max(waits):.1f} s"
        assert max(waits) > DEFAULT.reading_ms / 1000 / 2, "readings have a period"

    run_story(
        story,
        replace(METERED, metering_tick_ms=DEFAULT.metering_tick_ms, reading_ms=DEFAULT.reading_ms),
    )
