"""Steps in processes that are killed at a statement of theirs, until one comes to its end."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from random import Random
from typing import Any

from django.db import connection, connections

_FIRST_MAX = 30
_TRIES_MAX = 60


def until_done(
    random: Random, step: Callable[[], object], *, killed: bool, pause: Callable[[], object]
) -> int:
    """Do the step, here; or when `killed` in processes that end by SIGKILL at a statement, a later one each time.

    There is a pause after each. Returns the number of those that were killed.
    """
    if not killed:
        step()
        return 0
    limit = random.randrange(1, _FIRST_MAX)
    for tries in range(_TRIES_MAX):
        connections.close_all()
        # What it forks is a copy of the story as it stands; only the database and Stripe remember what it did.
        child = multiprocessing.get_context("fork").Process(target=_run, args=(step, limit, tries % 2 == 1))
        child.start()
        child.join()
        if child.exitcode == 0:
            return tries
        if child.exitcode != -signal.SIGKILL:
            raise AssertionError(f"a step of the story failed with {child.exitcode}; see above")
        limit = limit * 3 // 2 + 1
        pause()
    raise AssertionError(f"no process came to its end in {_TRIES_MAX} tries")


def _run(step: Callable[[], object], limit: int, after: bool) -> None:
    left = limit

    def counted(execute: Callable[..., Any], sql: Any, params: Any, many: Any, context: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = execute(sql, params, many, context)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    try:
        with connection.execute_wrapper(counted):
            step()
        connections.close_all()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
