"""What the console gives to the SDK when it reads from brokers, for messages and for proofs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from control_plane import config
from control_plane.brokers import as_tenant
from penstock.profiles import CA_FILE
from tests.control_plane.configuration import write
from web import broker_access, proofs, usage_tail


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes settings of `brokers` those of this process."""

    def configure(**brokers: Any) -> None:
        file = write(tmp_path, f"sqlite:///{tmp_path}/x.sqlite")
        values = json.loads(file.read_text())
        values["brokers"] |= brokers
        file.write_text(json.dumps(values))
        read = config.read(file)
        monkeypatch.setattr(config, "current", lambda: read)

    monkeypatch.delenv(CA_FILE, raising=False)
    return configure


def test_the_configured_authority_goes_to_the_sdk(configured: Callable[..., None]) -> None:
    configured(bootstrap=["broker-1.example.com:9092"], ca_file="/etc/penstock/clients-ca.pem")
    found = as_tenant.connection_with("key")
    assert (found.bootstrap, found.api_key) == (("broker-1.example.com:9092",), "key")
    assert found.ca_file == "/etc/penstock/clients-ca.pem"


def test_without_the_setting_the_variable_counts_as_for_any_client(
    configured: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configured()
    assert as_tenant.connection_with("key").ca_file is None
    monkeypatch.setenv(CA_FILE, "/etc/other.pem")
    assert as_tenant.connection_with("key").ca_file == "/etc/other.pem"


def test_proofs_and_the_usage_tail_take_their_connection_from_there() -> None:
    assert vars(proofs)["connection_with"] is as_tenant.connection_with
    assert vars(usage_tail)["client_with"] is broker_access.client_with
