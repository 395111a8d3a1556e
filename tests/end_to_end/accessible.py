"""The faults that axe names in a page."""

from collections.abc import Sequence
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

AXE: str = Axe().axe_script


def serious(page: Page, only: Sequence[str] = ()) -> list[str]:
    """The faults that are serious or worse, by all rules or some: the rule, and where."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    # Without `preload` axe does not fetch the styles again: it needs them for rules that are experimental, or moderate.
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
    if only:
        options["runOnly"] = {"type": "rule", "values": list(only)}
    violations: list[dict[str, Any]] = page.evaluate("options => axe.run(options)", options)["violations"]
    return [
        f"{violation['id']}: {node['target']} {node.get('failureSummary', '')}"
        for violation in violations
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
