"""The stages of the demo: what goes on now is shown, and how long each took is kept."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.cli.output import Bar, progress, say


class Stages:
    """Seconds by stage, in the order they were begun."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, what: str) -> Iterator[Bar]:
        """A bar on a terminal while the block runs, and a line when it has ended."""
        began = time.monotonic()
        with progress(what, total=1.0) as bar:
            yield bar
        took = time.monotonic() - began
        self.seconds[name] = round(self.seconds.get(name, 0.0) + took, 1)
        say(f"  {what}: {took:.1f} s")
