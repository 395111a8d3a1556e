"""What the service adds to a data directory: written once, kept, and never beside bare brokers."""

import json
import stat
from pathlib import Path

import pytest

from local.account import Account, read_account
from local.layout import DataDirectory
from local.profile import write_profile
from local.service_layout import PIPELINE_INTERVAL_S, Backends, HasNoService, NoService, ServiceDirectory
from penstock.contract.errors import InvalidRequest
from penstock.profiles import PROFILE_FILE, connection_settings


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "data")


def test_a_service_is_made_once_and_found_again(directory: DataDirectory) -> None:
    service = ServiceDirectory(directory)
    with pytest.raises(NoService):
        service.load()
    made = service.load_or_create(Backends())
    assert service.load_or_create(Backends(database_url="postgresql://elsewhere/x")) == made == service.load()
    assert made.database_url == f"sqlite:///{directory.path}/service/control.sqlite"
    assert made.celery_broker_url == f"filesystem://{directory.path}/service/celery"
    assert stat.S_IMODE(service.spec_file.stat().st_mode) == 0o600
    assert made.secret_key not in repr(read_account(service))


def test_the_configuration_says_where_everything_is(directory: DataDirectory) -> None:
    service = ServiceDirectory(directory)
    cluster = directory.load_or_create(2)
    spec = service.load_or_create(
        Backends(
            database_url="postgresql://u:p@127.0.0.1:1/d",
            celery_broker_url="redis://127.0.0.1:2/0",
            payments={"stripe_api_base": "http://127.0.0.1:3"},
        )
    )
    service.write_config(spec, cluster)
    config = json.loads(service.config_file.read_text())
    assert config["database_url"] == "postgresql://u:p@127.0.0.1:1/d"
    assert config["celery_broker_url"] == "redis://127.0.0.1:2/0"
    assert config["payments"] == {"stripe_api_base": "http://127.0.0.1:3"}
    assert config["listen"] == spec.web_address and config["public_url"] == spec.api_url
    assert config["brokers"]["internal"] == [broker.internal_address for broker in cluster.brokers]
    assert Path(config["brokers"]["pepper_file"]) == directory.pepper_file
    assert stat.S_IMODE(service.config_file.stat().st_mode) == 0o600


def test_the_pipelines_interval_stays_until_another_one_is_chosen(directory: DataDirectory) -> None:
    service = ServiceDirectory(directory)
    assert service.load_or_create(Backends()).pipeline_interval_s == PIPELINE_INTERVAL_S
    assert service.load_or_create(Backends(), pipeline_interval_s=600).pipeline_interval_s == 600
    again = service.load_or_create(Backends())
    assert again.pipeline_interval_s == service.load().pipeline_interval_s == 600
    service.write_config(again, directory.load_or_create(1))
    assert json.loads(service.config_file.read_text())["pipeline_interval_s"] == 600


def test_bare_brokers_do_not_become_a_service(
    directory: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILE_FILE, str(tmp_path / "profiles.toml"))
    write_profile(directory, directory.load_or_create(1), "key")
    with pytest.raises(HasNoService, match="made with --bare"):
        ServiceDirectory(directory).load_or_create(Backends())


def test_the_services_profile_names_its_tenant_and_its_rest_interface(
    directory: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILE_FILE, str(tmp_path / "profiles.toml"))
    monkeypatch.delenv("PENSTOCK_API_URL", raising=False)
    cluster = directory.load_or_create(1)
    write_profile(directory, cluster, "key", tenant="tn_1", api_url="http://127.0.0.1:9")
    assert connection_settings(profile="dev").api_url == "http://127.0.0.1:9"


def test_files_that_cannot_be_read_are_named(directory: DataDirectory) -> None:
    service = ServiceDirectory(directory)
    service.load_or_create(Backends())
    service.spec_file.write_text("{")
    with pytest.raises(InvalidRequest, match=r"service\.json"):
        service.load()
    service.account_file.write_text("[]")
    with pytest.raises(InvalidRequest, match=r"account\.json"):
        read_account(service)


def test_an_account_shows_no_password() -> None:
    account = Account(email="a@b", password="very secret", tenant="tn_1")
    assert "very secret" not in repr(account)
    assert Account.decode(account.encode()) == account
