"""`tenantlimit EMAIL NUMBER`: how many tenants a person may own."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from control_plane.audit.actor import system
from penstock.contract.errors import PenstockError
from tenants.accounts import actions, queries


class Command(BaseCommand):
    help = "Set how many tenants a person may own."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("number", type=int)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            person = queries.person_of_email(options["email"])
            actions.set_tenants_max(system("tenantlimit"), person, tenants_max=options["number"])
        except PenstockError as error:
            raise CommandError(error.message) from error
