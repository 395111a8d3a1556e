"""Writes every page of the reference, and the provider's descriptions, that are not as the code says.

With `--check` it only names them (exit code 1).
"""

import sys
from collections.abc import Callable
from pathlib import Path

from docs.reference import command_line, contract, metrics, resources, rest, sdk, settings

FOLDER = Path(__file__).parent
PAGES: dict[str, Callable[[], str]] = {
    "cli.md": command_line.commands_page,
    "exit-codes.md": command_line.exit_codes_page,
    "errors.md": contract.errors_page,
    "limits.md": contract.limits_page,
    "settings.md": settings.page,
    "topic-settings.md": contract.topic_settings_page,
    "metrics.md": metrics.page,
    "rest.md": rest.page,
    "sdk.md": sdk.page,
    "../../terraform/provider/internal/provider/resources.json": resources.written,
}
"""By their places beside this module."""


def main(arguments: list[str]) -> int:
    """0, or 1 when `--check` finds a page that differs."""
    rest.set_up_django()
    stale = []
    for name, make in PAGES.items():
        file, text = FOLDER / name, make()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in arguments:
                file.write_text(text, encoding="utf-8")
    for name in stale:
        print(name)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
