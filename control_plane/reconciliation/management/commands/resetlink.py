"""`resetlink EMAIL`: a link by which a person chooses a new password, shown once."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from control_plane.audit.actor import system
from penstock.contract.errors import PenstockError
from tenants.accounts import actions, queries
from tenants.accounts.links import reset_link


class Command(BaseCommand):
    help = "Make a link by which a person chooses a new password, and show it once. It is valid for 24 hours."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            _, token = actions.make_reset(system("resetlink"), queries.person_of_email(options["email"]))
        except PenstockError as error:
            raise CommandError(error.message) from error
        self.stdout.write(reset_link(token))
