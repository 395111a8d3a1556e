"""The standard streams of the command line: closed ones, full ones, and ones that do not have every letter."""

import codecs
import errno
import io
import os
import sys

_ESCAPED_ASCII = "penstock_ascii"
"""ASCII under another name. Click takes a stream that says ASCII for a mistake, and writes UTF-8 into it."""
NO_MORE_FITS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Writing fails with these where the disk is full, or broken."""


def prepare() -> None:
    """Make the standard streams ones that take any text: a letter that they do not have is written as an escape, and
    so is a byte that is no text where something is read. A stream that the caller has closed is empty, or takes
    everything; never another file's number.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="backslashreplace")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(
                encoding=_ESCAPED_ASCII if is_ascii else stream.encoding, errors="backslashreplace"
            )


def has_every_letter() -> bool:
    """True: the standard output takes any text without escapes."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


def lost_output(error: BaseException) -> OSError | None:
    """The reason why the output cannot be written; None if `error` is no such failure. Lost text is not tried again
    at the end.
    """
    try:
        sys.stdout.flush()
    except OSError as lost:
        write_nowhere()
        return lost if isinstance(error, OSError) else None
    # A stream without a buffer has forgotten what it could not write.
    return error if isinstance(error, OSError) and error.errno in NO_MORE_FITS else None


def give_up_lost_errors() -> None:
    """Drop the text that the standard error stream does not take: it is not tried again at the end."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stderr__.fileno() if sys.__stderr__ else 2)


def write_nowhere() -> None:
    """Nothing more reaches the standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


def _escaped_ascii(name: str) -> codecs.CodecInfo | None:
    if name != _ESCAPED_ASCII:
        return None
    ascii_codec = codecs.lookup("ascii")
    return codecs.CodecInfo(
        name=_ESCAPED_ASCII,
        encode=ascii_codec.encode,
        decode=ascii_codec.decode,
        incrementalencoder=ascii_codec.incrementalencoder,
        incrementaldecoder=ascii_codec.incrementaldecoder,
    )


codecs.register(_escaped_ascii)
