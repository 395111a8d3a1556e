"""`reconcile`: compare the brokers with the desired state once, and print what was repaired."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from control_plane.reconciliation.reconcile import reconcile
from penstock.contract.errors import PenstockError


class Command(BaseCommand):
    help = "Compare the brokers with what is wanted, once; prints what was found as JSON lines."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            for finding in reconcile().findings:
                self.stdout.write(json.dumps({"object": finding.object_id, "found": finding.what}))
        except PenstockError as error:
            raise CommandError(error.message) from error
