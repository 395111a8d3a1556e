"""A program that does what `python -m control_plane migrate APP NAME` does, app by app in one process: each process of
Django takes seconds to start. Usage: python taking_back.py '[["app", "name"]]'
"""

import json
import os
import sys
from collections.abc import Sequence


def main(wanted: Sequence[tuple[str, str]]) -> None:
    """Each app to that migration, in this order."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "control_plane.settings")
    import django
    from django.core.management import call_command

    django.setup()
    for app, name in wanted:
        call_command("migrate", app, name)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
