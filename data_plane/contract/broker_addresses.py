"""In which order brokers are asked: the one that answered last comes first, those that did not answer come last.

Brokers that joined are learnt from those that are known, so that the configured ones may all be replaced.
"""

from collections.abc import Callable, Iterator, Sequence


class BrokerAddresses:
    """host:port of internal listeners. Safe between threads: each change replaces the order as a whole."""

    def __init__(self, configured: Sequence[str], remembered: Callable[[], Sequence[str]]) -> None:
        """`remembered`: brokers that were seen before, by this process or another."""
        self._configured = tuple(configured)
        self._remembered = remembered
        self._order = list(configured)
        self._has_remembered = False

    def __str__(self) -> str:
        return ", ".join(self._order)

    def in_turn(self) -> Iterator[str]:
        """Those of now, each once."""
        if not self._has_remembered:
            self.remember()
        return iter(self._order)

    def answered(self, address: str) -> None:
        if self._order[:1] != [address]:
            self._order = [address, *(other for other in self._order if other != address)]

    def lost(self, address: str) -> None:
        """It did not answer."""
        self._order = [*(other for other in self._order if other != address), address]

    def learn(self, active: Sequence[str]) -> None:
        """These are there; others that were learnt are forgotten."""
        self._order = [one for one in self._order if one in self._configured or one in active]
        self._add(active)

    def remember(self) -> None:
        """Others may have met more."""
        self._has_remembered = True
        self._add(self._remembered())

    def _add(self, found: Sequence[str]) -> None:
        """Behind the one that is asked first."""
        known = self._order
        new = [address for address in found if address not in known]
        if new:
            self._order = [*known[:1], *new, *known[1:]]
