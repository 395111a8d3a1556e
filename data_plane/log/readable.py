"""Reading where the medium may refuse: what it does not give reads as zeros, which no checksum accepts (RL130).

So a bad sector is found, named and survived in the same way as a flipped bit: at boot as while serving.
"""

from data_plane.disk.port import DiskFault, File, FileMissing

_STEP_BYTES = 4_096


def read_or_zeros(file: File, position: int, length: int) -> tuple[bytes, bool]:
    """(at most `length` bytes, fewer only at the end of the file; whether the medium refused some of them)."""
    try:
        return file.read_at(position, length), False
    except FileMissing:
        raise
    except DiskFault:
        end = min(position + length, file.size())
    parts: list[bytes] = []
    at = position
    while at < end:
        step = min(_STEP_BYTES - at % _STEP_BYTES, end - at)
        try:
            parts.append(file.read_at(at, step).ljust(step, b"\0"))
        except DiskFault:
            parts.append(bytes(step))
        at += step
    return b"".join(parts), True
