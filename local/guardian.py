"""Whatever a process starts ends with it, however it ends: beside it stands a guardian, which then kills what carries
its mark.

The mark is a variable of the environment. It is inherited into other sessions, through commands that have ended
meanwhile and by other people's servers, where a signal at the parent's death (`PR_SET_PDEATHSIG`) reaches children
alone and comes at the end of the thread that started them. What gets an environment of its own must be given `mark()`.
A server that writes its title over its environment must be configured not to.

The guardian runs this file as a program without the rest of the project and without installed packages, so it imports
neither and reads /proc itself.
"""

import os
import secrets
import select
import signal
import sys
import time

VARIABLE = "PENSTOCK_ENDS_WITH"
"""One mark for each process that this one must not outlive, the outermost first, separated by blanks."""
_PROC = "/proc"
_LOOK_S = 0.05
_QUIET_LOOKS = 20
"""What was being started when the owner ended carries the mark only from its exec on."""
_TRIES_S = 30.0
"""A process that SIGKILL does not end in that time hangs in the kernel."""

_owner: int | None = None
_guardian: int | None = None
_own_mark = ""


def guard() -> None:
    """From now on everything that this process starts, and what that starts, ends with it. May be repeated: a guardian
    that was killed is then replaced.
    """
    global _owner, _own_mark
    if _owner == os.getpid():
        if not _is_there():
            _start(_own_mark)
        return
    _own_mark = secrets.token_hex(8)
    _start(_own_mark)
    os.environ[VARIABLE] = " ".join([*os.environ.get(VARIABLE, "").split(), _own_mark])
    _owner = os.getpid()


def let_go() -> None:
    """What this process starts from now on does not end with it."""
    global _owner
    others = [each for each in os.environ.get(VARIABLE, "").split() if each != _own_mark]
    os.environ.pop(VARIABLE, None)
    if others:
        os.environ[VARIABLE] = " ".join(others)
    _owner = None


def _is_there() -> bool:
    """Whether the guardian of this process has not ended."""
    assert _guardian is not None
    try:
        return os.waitpid(_guardian, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False  # another process has collected its end


def _start(own: str) -> None:
    global _guardian
    this = os.pidfd_open(os.getpid())
    try:
        # A session of its own: Ctrl-C in the terminal must not end it first.
        _guardian = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", __file__, own],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, this, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
        )
    finally:
        os.close(this)


def mark() -> dict[str, str]:
    """What an environment that is not this process's own must hold for its process to end with this one."""
    return {name: value for name, value in os.environ.items() if name == VARIABLE}


def _marked(own: str) -> list[int]:
    """Processes that carry this mark."""
    name = f"{VARIABLE}=".encode()
    found = []
    for pid in (int(entry) for entry in os.listdir(_PROC) if entry.isdigit()):
        marks = [value.removeprefix(name) for value in _environment_of(pid) if value.startswith(name)]
        if any(own.encode() in value.split() for value in marks):
            found.append(pid)
    return found


def _environment_of(pid: int) -> list[bytes]:
    """`NAME=value` of what a process was started with; empty when it is gone or not ours to look at."""
    try:
        with open(f"{_PROC}/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _end_all(own: str) -> None:
    deadline, quiet = time.monotonic() + _TRIES_S, 0
    while quiet < _QUIET_LOOKS and time.monotonic() < deadline:
        found = _marked(own)
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended by itself
        quiet = 0 if found else quiet + 1
        time.sleep(_LOOK_S)


def main(own: str) -> None:
    """Wait for the end of the process that standard input is a pidfd of, then end all that carries its mark."""
    owner = select.poll()
    owner.register(0, select.POLLIN)
    owner.poll()
    _end_all(own)


if __name__ == "__main__":
    main(sys.argv[1])
