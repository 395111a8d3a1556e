"""When a poll that got nothing has to say that no broker tells a topic's partitions."""

TOPIC_WAIT_MS = 990
"""So long polls wait before they say so: a poll of a second does."""


class TopicWait:
    """Short polls in a row count together: the first ones of a program that polls every few milliseconds are empty."""

    def __init__(self) -> None:
        self._since_ms: float | None = None

    def in_vain(self, unknown: str | None, timeout: float | None, now_ms: float) -> bool:
        """Whether a poll of `timeout` seconds that ends now with nothing has to say that `unknown` is not told."""
        if unknown is None:
            self._since_ms = None
            return False
        if not timeout:
            return False
        if self._since_ms is None:
            self._since_ms = now_ms - timeout * 1000
        return now_ms - self._since_ms >= TOPIC_WAIT_MS
