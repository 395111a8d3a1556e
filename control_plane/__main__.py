"""Commands of the control plane: `python -m control_plane migrate | bootstrap | createoperator | reconcile | …`."""

import os
import sys

from control_plane import config, logs
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
        sys.exit(f"penstock: {said}")
    except ConfigurationError as error:
        sys.exit(f"penstock: {error}")


if __name__ == "__main__":
    main()
