"""Commands of the control plane: `python -m control_plane migrate | bootstrap | createoperator | reconcile | …`."""

import os
import sys
from typing import NoReturn

from control_plane import config, logs
from penstock.cli.exit_codes import ProcessEnd
from penstock.contract.errors import ConfigurationError


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "control_plane.settings")
    logs.set_up("command")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        execute_from_command_line(["penstock-control-plane", *sys.argv[1:]])
    except OperationalError:
        from control_plane import server_checks  # it needs Django's settings

        said = server_checks.database_failure(config.current())
        if said is None:
            raise
        _cannot_start(said)
    except ConfigurationError as error:
        _cannot_start(error.message)


def _cannot_start(why: str) -> NoReturn:
    print(f"penstock: {why}", file=sys.stderr)
    sys.exit(ProcessEnd.CANNOT_START)


if __name__ == "__main__":
    main()
