"""What concerns the whole process: grpc's own settings, made before it is loaded, what becomes of a fork, and its end.

After os.fork() threads and connections stay with the parent, so clients that were used before say so in the child
instead of hanging; one that was not used yet is as good as new there.
grpc's own handlers, which its library switches on by default, do not make it usable in the child of a
process with open channels: they skip themselves, and the child may abort. They are switched off here unless the
environment says something; with GRPC_ENABLE_FORK_SUPPORT=1 they are on, and the child may try new clients
(some forks then wait for seconds, and some children still cannot connect).

grpc reports each connection that ends on the standard error stream; only errors are left, unless GRPC_VERBOSITY says
otherwise. The client's exceptions say what they mean for it.

At the end of the interpreter `atexit` calls its functions while daemon threads still run and all other ones are over.
So that is when a client that was not closed sends what it holds.
"""

import atexit
import os
import sys
import weakref
from typing import Any, Protocol

from penstock.contract.errors import UsedAfterFork

_SWITCH = "GRPC_ENABLE_FORK_SUPPORT"
if "grpc" not in sys.modules:
    os.environ.setdefault(_SWITCH, "0")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


class Resident(Protocol):
    """What lives as long as the process, unless it is closed before."""

    def after_fork(self) -> None:
        """Called in the child, in its only thread."""

    def at_exit(self) -> None:
        """The program ends. Called also for what was closed, and in forked children that end as programs do."""


_live: "weakref.WeakKeyDictionary[Resident, None]" = weakref.WeakKeyDictionary()
"""In the order they were made: a client comes before the receipts that its last messages bring."""
_in_use = False
_left_behind = False
_ADVICE = "grpc does not survive that: start the process by spawn, or fork before the first use of any client"


def watch_process(resident: Resident) -> None:
    """Tell `resident` in the child of every later fork, and at the end, as long as it is referenced elsewhere."""
    _live[resident] = None


def channel_wanted() -> None:
    """Before each new channel. Raises `UsedAfterFork` where grpc stayed behind in the parent."""
    global _in_use
    if _left_behind:
        raise UsedAfterFork(f"client: its parent process had used a client before os.fork(), and {_ADVICE}")
    if not _in_use:
        _in_use = True
        _attend_end_of_multiprocessing()


def used_before_fork() -> UsedAfterFork:
    """In a child, the error of a client that was used before: whether the child can have another one or not."""
    advice = f"a new one fails as well, since {_ADVICE}" if _left_behind else "make one in the child"
    return UsedAfterFork(f"client: used before os.fork(), so its connections are the parent's; {advice}")


def _attend_end_of_multiprocessing() -> None:
    """Its forked children end without `atexit`, after finalizers of their own."""
    util: Any = sys.modules.get("multiprocessing.util")
    process: Any = sys.modules.get("multiprocessing.process")
    if util is not None and process is not None and process.parent_process() is not None:
        util.Finalize(None, _at_exit, exitpriority=0)


def _after_fork() -> None:
    global _left_behind
    _left_behind = _in_use and os.environ.get(_SWITCH) != "1"
    for resident in list(_live):
        resident.after_fork()


def _at_exit() -> None:
    for resident in list(_live):
        resident.at_exit()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
