"""Which keys are frequent, by partition, from a sample of what a producer sends.

Space-saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams, 2005):
KEYS counters a partition. A key without one takes over the smallest, with its count as the error. So no key that is in
more than 1/KEYS of the sample is missing, and a count is too high by its error at most.

A message is looked at about each LOOK_MS, and no more than one of about SAMPLED_OF where many are sent: a producer of
a few messages a second looks at all of them. Gaps differ, so that keys that come by turns are seen alike, and a look
counts for the messages that passed since the one before. Counts are halved each HALVED_MS: they speak of about the last
minute. Times are the client's milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

SAMPLED_OF = 256
LOOK_MS = 25.0
LOOKS_MIN = 3
"""A key that fewer looks met is not called frequent."""
KEYS = 32
PARTITIONS_MAX = 256
"""Partitions that are followed; of more, those sampled last."""
KEY_BYTES_MAX = 128
"""Of a key so many bytes are kept; longer ones that begin alike count as one."""
HALVED_MS = 30_000.0
_HALVINGS_MAX = 40
_FIRST = 32
"""Of so many messages one is looked at to begin with. The distance falls to an eighth at most, and doubles at most."""
_MANY = 1 << 60


@dataclass(frozen=True, slots=True)
class FrequentKey:
    """One of the most frequent keys of a partition, in the producer's last minute or so."""

    key: bytes
    """Its first 128 bytes at most."""
    size: int
    """Of the whole key, in bytes."""
    count: int
    """Messages with this key, as the looks count them, at most."""
    error: int
    """By how much `count` may be too high."""
    looks: int
    """So many looks met it since it is counted."""


class _Counter:
    __slots__ = ("count", "error", "looks", "size")

    def __init__(self, size: int, count: int, error: int) -> None:
        self.size = size
        self.count = count
        self.error = error
        self.looks = 1


class KeySketch:
    """The frequent keys of one partition, in bounded memory."""

    __slots__ = ("_counters", "_halved_at", "_least", "_since", "looks", "sampled")

    def __init__(self, now: float) -> None:
        self.sampled = 0
        """Messages that all looks count for, halved as the counts are."""
        self.looks = 0
        """How many looks that were, halved likewise."""
        self._since = 0
        self._counters: dict[bytes, _Counter] = {}
        self._least = 0
        """No count is below it."""
        self._halved_at = now

    def add(self, key: bytes, now: float, messages: int = 1) -> None:
        """A message that was looked at has this key, and counts for so many."""
        if now - self._halved_at >= HALVED_MS:
            self._halve(now)
        self.sampled += messages
        self.looks += 1
        self._since += messages
        kept = key if len(key) <= KEY_BYTES_MAX else key[:KEY_BYTES_MAX]
        counter = self._counters.get(kept)
        if counter is not None:
            counter.count += messages
            counter.looks += 1
        elif len(self._counters) < KEYS:
            self._counters[kept] = _Counter(len(key), messages, 0)
        else:
            self._counters[kept] = self._taken_over(len(key), messages)

    def top(self, count: int, now: float, looks_min: int = 1) -> list[FrequentKey]:
        """The most frequent first, without those that may be there by their error alone, and without those that fewer
        looks met: a single look may count for hundreds of messages.
        """
        self._halve(now)
        found = [
            FrequentKey(key, counter.size, counter.count, counter.error, counter.looks)
            for key, counter in self._counters.items()
            if counter.count > counter.error and counter.looks >= looks_min
        ]
        found.sort(key=_order)
        return found[:count]

    def messages_since(self) -> int:
        """Messages that the looks since this was asked last count for."""
        messages, self._since = self._since, 0
        return messages

    def _taken_over(self, size: int, messages: int) -> _Counter:
        """The smallest counter, taken out, for a key of so many bytes.

        Counts grow between two halvings, so the search ends at the first that is as small as the smallest was.
        """
        least = _MANY
        smallest = b""
        for key, counter in self._counters.items():
            if counter.count < least:
                smallest, least = key, counter.count
                if least == self._least:
                    break
        self._least = least
        counter = self._counters.pop(smallest)
        counter.size, counter.count, counter.error, counter.looks = size, least + messages, least, 1
        return counter

    def _halve(self, now: float) -> None:
        times = int((now - self._halved_at) / HALVED_MS)
        if times <= 0:
            return
        self._halved_at += times * HALVED_MS
        times = min(times, _HALVINGS_MAX)
        self._least = 0
        self.sampled >>= times
        self.looks >>= times
        for key, counter in list(self._counters.items()):
            counter.count >>= times
            counter.error >>= times
            counter.looks >>= times
            if not counter.count:
                del self._counters[key]


def _order(one: FrequentKey) -> tuple[int, bytes]:
    return one.error - one.count, one.key


class KeySampler:
    """Of one producer. `gap` says how many messages pass until `sample` is due."""

    __slots__ = ("_every", "_looked_at", "_sketches", "_state", "gap", "looks")

    def __init__(self, seed: int = 1) -> None:
        self._sketches: dict[tuple[str, int], KeySketch] = {}
        self._state = seed
        self._every = _FIRST
        self._looked_at: float | None = None
        self.looks = 0
        """Messages that were looked at, of all partitions."""
        self.gap = 0
        self._next_gap()

    def sample(self, topic: str, partition: int, key: bytes, now: float) -> int:
        """Look at one message; after how many more the next one is due."""
        where = (topic, partition)
        # Taken out and put in again: the first one is then that sampled longest ago.
        sketch = self._sketches.pop(where, None)
        if sketch is None:
            if len(self._sketches) >= PARTITIONS_MAX:
                del self._sketches[next(iter(self._sketches))]
            sketch = KeySketch(now)
        self._sketches[where] = sketch
        sketch.add(key, now, self.gap)
        self.looks += 1
        self._keep_pace(now)
        self._next_gap()
        return self.gap

    def sketches(self) -> list[tuple[tuple[str, int], KeySketch]]:
        """Of each (topic, partition) that is followed."""
        return list(self._sketches.items())

    def forget(self, topic: str) -> None:
        """The topic is gone."""
        for where in [where for where in self._sketches if where[0] == topic]:
            del self._sketches[where]

    def _keep_pace(self, now: float) -> None:
        """The next looks come after about LOOK_MS, if that is not too many."""
        before, self._looked_at = self._looked_at, now
        if before is None:
            return
        least, most = max(1, self._every // 8), min(SAMPLED_OF, 2 * self._every)
        passed_ms = now - before
        wanted = most if passed_ms * most <= LOOK_MS * self._every else int(LOOK_MS * self._every / passed_ms)
        self._every = min(max(wanted, least), most)

    def _next_gap(self) -> None:
        # A linear congruence as in C's rand(): a gap has to be unlike the keys' order, and no more.
        self._state = (self._state * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
        self.gap = 1 + (self._state >> 12) % (2 * self._every - 1)
