"""`penstock tenant plans`: a plan is a column, because there are more limits than a terminal is wide."""

from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli import tenants
from penstock.cli.__main__ import cli


class Plans:
    """An admin client that knows two plans; the second is of a server that tells no service level."""

    def plans(self, timeout: float) -> list[dict[str, Any]]:
        return [
            {
                "name": "free", "version": 2, "limits": {"topics_max": 10, "bin_days": 3},
                "service_level": {"name": "standard", "version": 1},
            },
            {"name": "committed", "version": 1, "limits": {"topics_max": 0, "bin_days": 30}},
        ]  # fmt: skip

    def close(self) -> None:
        pass


def test_each_limit_is_a_row_with_the_plans_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenants, "admin_client", Plans)
    outcome = CliRunner().invoke(cli, ["tenant", "plans"], catch_exceptions=False)
    assert [line.split("\t") for line in outcome.stdout.splitlines()] == [
        ["limit", "free 2", "committed 1"],
        ["service level", "standard 1", "-"],
        ["bin_days", "3", "30"],
        ["topics_max", "10", "0"],
    ]
