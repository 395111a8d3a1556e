"""What the Java of the session writes to standard error: kept, and passed on to that of the test which runs then."""

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_LINES_KEPT = 1_000
_STDERR = 2


class JavaOutput:
    """Its last lines."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=_LINES_KEPT)

    def with_word(self, word: str) -> list[str]:
        """Whole lines that contain it."""
        return [line.decode() for line in list(self._lines) if word.encode() in line]

    @contextmanager
    def taken(self) -> Iterator[None]:
        """What is started within the block writes here until it ends."""
        read, write = os.pipe()
        before = os.dup(_STDERR)
        os.dup2(write, _STDERR)
        os.close(write)
        threading.Thread(target=self._pass_on, args=(read,), name="output of java", daemon=True).start()
        try:
            yield
        finally:
            os.dup2(before, _STDERR)
            os.close(before)

    def _pass_on(self, read: int) -> None:
        with open(read, "rb") as lines:
            for line in lines:
                self._lines.append(line)
                os.write(_STDERR, line)
