"""Shared by all unit tests of the client."""

import pytest

from penstock.client.telling import write_lines


@pytest.fixture(autouse=True)
def _no_line_is_left_of_another_test() -> None:
    """Lines of the log wait for their client's runtime, and cores without one leave theirs."""
    write_lines()
