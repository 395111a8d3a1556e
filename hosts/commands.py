"""Programs of the operating system, run to their end; a failure names the command and what it said."""

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_TIMEOUT_S = 60.0


class CommandFailed(Exception):
    """`command` as one types it, `words` as it answered."""

    def __init__(self, command: Sequence[str], words: str) -> None:
        self.command = shlex.join(command)
        self.words = " ".join(words.split())
        super().__init__(f"{self.command}: {self.words}")


def run(
    *command: str,
    timeout_s: float = _TIMEOUT_S,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """What the command wrote to its output. Raises `CommandFailed`."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            cwd=cwd,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise CommandFailed(command, "not found") from None
    except subprocess.TimeoutExpired:
        raise CommandFailed(command, f"has not ended after {timeout_s:g} s") from None
    if done.returncode != 0:
        raise CommandFailed(command, done.stderr or done.stdout or f"status {done.returncode}")
    return done.stdout


def find(program: str) -> str:
    """The path of a program. Raises `CommandFailed`."""
    path = shutil.which(program)
    if path is None:
        raise CommandFailed([program], "not found")
    return path
