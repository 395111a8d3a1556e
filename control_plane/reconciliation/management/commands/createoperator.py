"""`createoperator NAME`: a token for an operator of the service, shown once."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from control_plane.audit.actor import system
from penstock.contract.ids import SYSTEM_TENANT
from tenants.actions import create_operator


class Command(BaseCommand):
    help = "Make an operator's token and show it once."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        token = create_operator(system("createoperator"), name=options["name"], tenant=SYSTEM_TENANT)
        self.stdout.write(token)
