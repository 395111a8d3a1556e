"""Fixtures of billing: an empty world with a folder for data sets."""

from pathlib import Path

import pytest

from tests.control_plane.billing.world import World


@pytest.fixture
def world(db: None, tmp_path: Path) -> World:
    return World(tmp_path / "datasets")
