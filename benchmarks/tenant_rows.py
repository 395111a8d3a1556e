"""Puts many tenants and topics into a control plane's database in one transaction, and waits until brokers have them.

    PENSTOCK_CONFIG=... python -m benchmarks.tenant_rows --tenants 1000
    PENSTOCK_CONFIG=... python -m benchmarks.tenant_rows --topics 10 --partitions 3

It prints one line of JSON. The second form gives topics to every tenant that the first one made.
"""

import argparse
import json
import os
import sys
import time
from typing import Any

PREFIX = "many-"
_POLL_S = 0.1
_WITHIN_S = 600.0
_SAID_EVERY_S = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=0)
    parser.add_argument("--topics", type=int, default=0, help="of each tenant")
    parser.add_argument("--partitions", type=int, default=3, help="of each topic")
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "control_plane.settings")
    import django

    django.setup()
    print(json.dumps(_run(arguments)), file=sys.stdout)


class _Progress:
    """Says now and then how far it is."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    def say(self, what: str) -> None:
        if time.monotonic() - self._at >= _SAID_EVERY_S:
            self._at = time.monotonic()
            print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    # Models can be imported only when the application is set up.
    from django.db import transaction

    from control_plane.access.actions import create_key
    from control_plane.audit.actor import system
    from control_plane.brokers import client as brokers
    from control_plane.outbox.models import Delivery
    from control_plane.reconciliation.reconcile import reconcile
    from control_plane.topics.actions import TopicAsked, create_topics
    from penstock.contract.errors import PenstockError
    from tenants.actions import create_tenant
    from tenants.models import Tenant

    actor = system("benchmark")
    began = time.monotonic()
    progress = _Progress()
    with transaction.atomic():
        for number in range(arguments.tenants):
            tenant = create_tenant(actor, name=f"{PREFIX}{number:05d}")
            create_key(actor, tenant, name="app")
            progress.say(f"{number + 1} of {arguments.tenants} tenants are written")
        if arguments.topics:
            asked = [
                TopicAsked(name=f"topic-{number}", partitions=arguments.partitions, settings={})
                for number in range(arguments.topics)
            ]
            tenants = Tenant.objects.filter(name__startswith=PREFIX).order_by("pk")
            for number, tenant in enumerate(tenants):
                progress.say(f"the topics of {number} tenants are written")
                for made in create_topics(actor, tenant, asked):
                    if isinstance(made, PenstockError):
                        raise made
    rows_s = time.monotonic() - began
    began = time.monotonic()
    while left := Delivery.objects.filter(delivered_at=None).count():
        if time.monotonic() > began + _WITHIN_S:
            raise TimeoutError(f"{left} deliveries are left after {_WITHIN_S:g} s")
        progress.say(f"{left} deliveries are left")
        time.sleep(_POLL_S)
    delivered_s = time.monotonic() - began
    began = time.monotonic()
    seen = brokers.describe(objects=True)
    described_s = time.monotonic() - began
    began, used = time.monotonic(), time.process_time()
    findings = reconcile().findings
    return {
        "rows_s": rows_s,
        "delivered_s": delivered_s,
        "described_s": described_s,
        "compared_s": time.monotonic() - began,
        "compared_cpu_s": time.process_time() - used,
        "found": len(findings),
        "topics": len(seen.topics),
        "tenants": len(seen.tenants),
    }


if __name__ == "__main__":
    main()
