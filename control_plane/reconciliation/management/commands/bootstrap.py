"""`bootstrap`: the system tenant, the internal topics, the usage key file and the operator token file."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from control_plane.reconciliation.bootstrap import WITHIN_S, bootstrap
from penstock.contract.errors import PenstockError


class Command(BaseCommand):
    help = "Make what the service itself needs on the brokers and in the database; may be repeated."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--migrate",
            action="store_true",
            help="apply migrations first: one process instead of two, each of which takes a second to start",
        )
        parser.add_argument("--within", type=float, default=WITHIN_S, help="seconds to wait for the brokers")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["migrate"]:
            call_command("migrate", verbosity=options["verbosity"], skip_checks=True)
        try:
            bootstrap(options["within"])
        except PenstockError as error:
            raise CommandError(error.message) from error
