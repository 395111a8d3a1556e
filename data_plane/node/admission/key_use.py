"""When API keys were last used, for those who look for keys that are not needed."""

import heapq

REMEMBERED_MS = 3_600_000
"""The control plane asks each minute; uses are forgotten after an hour without a question."""
PAGE = 5_000
"""Keys of one answer, some 30 bytes each."""


class KeyUse:
    """The last use of each key at this broker. In memory only: a broker that is killed forgets what was not asked for.

    There is one entry for each key that was used, so never more than there are keys.
    """

    def __init__(self) -> None:
        self._used_ms: dict[str, int] = {}

    def note(self, key_id: str, now_ms: int) -> None:
        """A call came, or a frame on a stream. `now_ms`: wall clock."""
        self._used_ms[key_id] = now_ms

    def page(self, *, after: str, within_ms: int, now_ms: int) -> list[tuple[str, int]]:
        """Keys that were used within that time, with the ms since: at most PAGE, the first by id behind `after`."""
        for key_id in [one for one, used_ms in self._used_ms.items() if now_ms - used_ms > REMEMBERED_MS]:
            del self._used_ms[key_id]
        found = (
            (key_id, max(0, now_ms - used_ms))
            for key_id, used_ms in self._used_ms.items()
            if key_id > after and now_ms - used_ms <= within_ms
        )
        return heapq.nsmallest(PAGE, found)
