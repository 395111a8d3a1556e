"""Fixtures of payments: a world of billing with Stripe in memory, and settings that a test may change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from control_plane import config
from control_plane.config import PaymentsConfig
from demo.fake_stripe import FakeStripe
from payments import stripe_adapter
from tests.control_plane.billing.world import World
from tests.control_plane.payments.paying import KEY, WEBHOOK_SECRET

Configure = Callable[..., PaymentsConfig]


@pytest.fixture
def world(db: None, tmp_path: Path) -> World:
    return World(tmp_path / "datasets")


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Changes settings of payments for this test."""
    present = config.current()

    def change(**settings: Any) -> PaymentsConfig:
        made = PaymentsConfig(**settings)
        changed = msgspec.structs.replace(present, payments=made)
        monkeypatch.setattr(config, "current", lambda: changed)
        return made

    return change


@pytest.fixture
def fake(configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeStripe:
    """Payment through Stripe is on, and Stripe is this one."""
    made = FakeStripe()
    (tmp_path / "stripe.key").write_text(KEY + "\n")
    (tmp_path / "webhook.secret").write_text(WEBHOOK_SECRET + "\n")
    configure(stripe_key_file=tmp_path / "stripe.key", stripe_webhook_secret_file=tmp_path / "webhook.secret")
    stripe_adapter._gateway.cache_clear()
    monkeypatch.setattr(stripe_adapter, "http_client", lambda: made.http_client)
    return made
