"""What benchmarks send: messages that a codec can compress, as records of an application are."""

import os

COUNT = 10_000
_WORDS = [os.urandom(12).hex().encode() for _ in range(256)]
_STEPS = (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)


def message_values(size: int) -> list[bytes]:
    """10,000 values of `size` bytes, at most 1,000: a number and words of a vocabulary of 256."""
    made = []
    for number in range(COUNT):
        words = b" ".join(_WORDS[number * step % 256] * 3 for step in _STEPS)
        made.append((b"%08d " % number + _WORDS[number % 256] + b" " + words)[:size])
    if any(len(value) != size for value in made):
        raise ValueError(f"{size} bytes wanted, at most {len(made[0])} can be made")
    return made
