"""`revokeoperator ID`: refuse an operator's token; without an id, those that there are."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from control_plane.audit.actor import system
from penstock.contract.errors import PenstockError
from penstock.contract.ids import SYSTEM_TENANT
from tenants.actions import revoke_operator
from tenants.queries import operators


class Command(BaseCommand):
    help = "Refuse an operator's token from now on. Without an id: list the operators."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", nargs="?")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["id"] is None:
            for row in operators().order_by("pk"):
                self.stdout.write(f"{row.public_id}\t{row.name}\t{row.created_at.isoformat()}")
            return
        try:
            revoke_operator(system("revokeoperator"), public_id=options["id"], tenant=SYSTEM_TENANT)
        except PenstockError as error:
            raise CommandError(error.message) from error
