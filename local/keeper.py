"""Beside a supervisor that was left behind waits one of these, and starts it again when it was killed.

It reads a pipe of which the supervisor alone holds the other end. A supervisor that ends as it was asked to writes a
byte before; when the pipe ends without one, this process becomes the next supervisor, and that one starts the next of
these. Only who kills both at once leaves a service that nothing supervises: `penstock dev status` says so.

The waiting side runs this file as a program without the rest of the project and without installed packages: it takes a
fifth of the memory of a supervisor.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence

AGAIN_S = 1.0
"""Between the end of a supervisor and the start of the next: a broken one must not take the machine."""
_RELEASED = b"."


class Keeper:
    """The supervisor's side."""

    def __init__(self, command: Sequence[str]) -> None:
        """`command` starts the supervisor; its environment, folder and output are the caller's."""
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None

    def look(self) -> None:
        """Let one wait, unless it does."""
        if self._process is not None and self._process.poll() is None:
            return
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, *self._command],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def release(self) -> None:
        """The supervisor ends as it was asked to: no other one is started."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        try:
            process.stdin.write(_RELEASED)
            process.stdin.close()
        except BrokenPipeError:
            pass  # it was killed, and there was no look since


def main(command: Sequence[str]) -> None:
    """Wait for the end of the supervisor at the other end of standard input."""
    if os.read(0, 1):
        return
    time.sleep(AGAIN_S)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.execv(command[0], list(command))


if __name__ == "__main__":
    main(sys.argv[1:])
