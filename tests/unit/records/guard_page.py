"""Parses hostile blocks that end `room` bytes before a page that must not be touched; a read there is fatal."""

import ctypes
import mmap
import random
import struct
import sys

from penstock.records.codec import extension_codec
from tests.unit.records.forging import encode_record

PAGE = mmap.PAGESIZE


def main(room: int) -> None:
    codec = extension_codec()
    assert codec is not None
    memory = mmap.mmap(-1, 2 * PAGE)
    view = memoryview(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + PAGE), ctypes.c_size_t(PAGE), 0) == 0
    rng = random.Random(7)
    head = struct.pack(">qiibIhiqqqhii", 0, 0, -1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1_000)
    for block in blocks(rng):
        start = PAGE - room - len(block) - len(head)
        view[start : start + len(head)] = head
        view[start + len(head) : PAGE - room] = block
        # The worst room: numbers that go on.
        view[PAGE - room : PAGE] = b"\xff" * room
        try:
            list(codec.batch(view[start : PAGE - room]))
        except (codec.corrupt, UnicodeDecodeError, OverflowError, MemoryError):
            continue


def blocks(rng: random.Random) -> list[bytes]:
    """Blocks that end inside a number, at each field of a record, and random ones."""
    sound = encode_record(0, 5, b"key", b"v", [("h", b"x"), ("h", None), ("", b"")])
    made = [
        sound[:cut] + tail for cut in range(len(sound)) for tail in (b"\xff", b"\x80", b"\xff" * 9, b"\x02")
    ]
    fields = bytes(range(8)) + b"\x80\xff\xfe\x7f\x01\x01\x02"
    made += [bytes(rng.choices(fields, k=rng.randrange(1, 60))) for _ in range(60_000)]
    made += [rng.randbytes(rng.randrange(1, 60)) for _ in range(20_000)]
    return made


if __name__ == "__main__":
    main(int(sys.argv[1]))
