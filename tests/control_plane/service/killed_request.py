"""Creates a topic as a request does, and is killed at the step named: `python killed_request.py STEP TENANT NAME`."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import django


def killed(*given: Any, **named: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_after(done: Callable[..., Any]) -> Callable[..., Any]:
    def do(*given: Any, **named: Any) -> Any:
        done(*given, **named)
        return killed()

    return do


def main(step: str, tenant: str, name: str) -> None:
    django.setup()
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


if __name__ == "__main__":
    main(*sys.argv[1:])
