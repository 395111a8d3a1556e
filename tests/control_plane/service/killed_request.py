"""Creates topics as requests do, each in a process that it forks and that is killed at a step.

tests        -> this program   [step, tenant, name]
this program -> tests          the status with which the forked process ended
"""

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import django

IMPORTED_ONCE = ("control_plane.reconciliation.deliverers", "control_plane.topics.creation")


def killed(*given: Any, **named: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_after(done: Callable[..., Any]) -> Callable[..., Any]:
    def do(*given: Any, **named: Any) -> Any:
        done(*given, **named)
        return killed()

    return do


def create(step: str, tenant: str, name: str) -> None:
    """Create the topic; the process is killed on the way."""
    from control_plane.audit.actor import system
    from control_plane.outbox import actions, delivery
    from control_plane.reconciliation.deliverers import TopicDeliverer
    from control_plane.topics import creation
    from data_plane.contract.admin_client import AdminClient
    from tenants import queries as tenants

    steps: dict[str, tuple[Any, str, Callable[..., Any]]] = {
        "committed": (delivery, "deliver", killed),
        "claimed": (TopicDeliverer, "deliver", killed),
        "placed": (AdminClient, "create_topic", killed),
        "made": (AdminClient, "create_topic", killed_after(AdminClient.create_topic)),
        "seen": (AdminClient, "wait_until_seen", killed_after(AdminClient.wait_until_seen)),
        "settled": (actions, "record_delivered", killed_after(actions.record_delivered)),
    }
    setattr(*steps[step])
    creation.create_topic(system("test"), tenants.tenant_by_id(tenant), name=name, partitions=2, settings={})


def main() -> None:
    django.setup()
    for module in IMPORTED_ONCE:
        importlib.import_module(module)
    # Nothing is open yet that forks would share: neither a database nor a connection to the brokers.
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            create(*json.loads(line))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
