"""The configuration: read whole, refused by name, its secrets never shown."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from control_plane import config
from penstock.contract.errors import ConfigurationError
from tests.control_plane.configuration import write
from tests.waiting import PATIENCE_S


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path, "postgresql://user:hidden@127.0.0.1:5432/penstock")


def changed(file: Path, path: list[str], value: Any) -> Path:
    """The file with one setting changed; `...` takes it out."""
    values = json.loads(file.read_text())
    section = values
    for name in path[:-1]:
        section = section[name]
    if value is ...:
        del section[path[-1]]
    else:
        section[path[-1]] = value
    file.write_text(json.dumps(values))
    return file


def test_a_configuration_is_read_and_shows_no_secret(file: Path) -> None:
    read = config.read(file)
    assert read.brokers.internal == ("127.0.0.1:9",) * 3
    assert read.price_book_file is None and read.state_directory == file.parent
    assert read.reconcile_interval_s == config.RECONCILE_S
    assert config.read(changed(file, ["reconcile_interval_s"], 3)).reconcile_interval_s == 3
    assert "hidden" not in repr(read) and read.secret_key not in repr(read)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["environment"], ..., "environment: missing; give it a value"),
        (["environment"], 5, "environment: text required, a whole number given"),
        (["colour"], "red", "colour: no such setting; known: brokers, "),
        (["brokers", "internal"], [], "brokers.internal: a list of at least 1 required"),
        (["brokers", "pepper_version"], 0, "brokers.pepper_version: a whole number of at least 1 required"),
        (["brokers", "pepper_version"], True, "brokers.pepper_version: a whole number required"),
        (
            ["brokers", "pepper_verson"],
            1,
            "brokers.pepper_verson: no such setting; did you mean pepper_version?",
        ),
        (["secret_kye"], "s", "secret_kye: no such setting; did you mean secret_key?"),
        (["brokers"], [], "brokers: an object required, a list given"),
        (["reconcile_interval_s"], 0, "reconcile_interval_s: a whole number of at least 1 required"),
        (
            ["price_book_file"],
            1,
            "price_book_file: the name of a file or folder required, a whole number given",
        ),
        (["reconcile_interval_s"], 10**400, "reconcile_interval_s: a whole number of at most 86400 required"),
        (["pipeline_interval_s"], 86_401, "pipeline_interval_s: a whole number of at most 86400 required"),
        (["environment"], "staging-eu", "environment: 1 to 12 of a-z 0-9 required, 'staging-eu' given"),
        (["listen"], "8080", "listen: host:port required, '8080' given"),
        (["brokers", "bootstrap"], ["a:1", "b"], "brokers.bootstrap: host:port required, 'b' given"),
        (["brokers", "internal"], [""], "brokers.internal: host:port required, '' given"),
        (["public_url"], "penstock.example", "public_url: http://host or https://host required"),
        (["public_url"], "ftp://penstock.example", "public_url: http://host or https://host required"),
        (["public_url"], "https://[x", "public_url: no address; "),
        (["trusted_proxies"], "10.0.0.1", "trusted_proxies: a list required, text given"),
        (["trusted_proxies"], ["10.0.0.1/8"], "trusted_proxies: 10.0.0.1/8 has host bits set"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(file: Path, path: list[str], value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        config.read(changed(file, path, value))
    assert message in str(refused.value) and str(file) in str(refused.value)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        config.read(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ConfigurationError, match="is not JSON"):
        config.read(tmp_path / "broken.json")


@pytest.mark.parametrize(("process", "setting"), [("web", "LISTEN"), ("worker", "WORKER_LISTEN")])
def test_a_process_says_in_one_line_what_is_wrong_with_its_configuration(
    file: Path, process: str, setting: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "server", process, "--config", str(file)],
        env={**os.environ, f"PENSTOCK_SERVER_{setting}": "8080"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert done.stderr == f"penstock: PENSTOCK_SERVER_{setting}: host:port required, '8080' given\n"


@pytest.mark.parametrize(("process", "setting"), [("web", "listen"), ("worker", "worker_listen")])
def test_a_process_whose_address_is_taken_says_so_in_one_line(file: Path, process: str, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "penstock.cli", "server", process, "--config", str(file)],
            env={**os.environ, f"PENSTOCK_SERVER_{setting.upper()}": address},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"penstock: {setting}: {address}: Address already in use"


def test_databases_by_address() -> None:
    lite = config.database("sqlite:////var/lib/penstock/control.sqlite")
    assert lite["NAME"] == "/var/lib/penstock/control.sqlite"
    assert lite["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    postgres = config.database("postgresql://user:p%40ss@127.0.0.1:5433/penstock")
    assert (postgres["USER"], postgres["PASSWORD"], postgres["PORT"]) == ("user", "p@ss", "5433")
    several = config.database("postgresql://user:p%40ss@db-1:5433,[::1],db-3:5434/penstock")
    assert (several["HOST"], several["PORT"]) == ("db-1,::1,db-3", "5433,5432,5434")
    assert (several["USER"], several["PASSWORD"], several["NAME"]) == ("user", "p@ss", "penstock")
    assert several["OPTIONS"]["target_session_attrs"] == "read-write"
    assert "target_session_attrs" not in postgres["OPTIONS"]
    named = config.database("postgresql://u@db-1,db-2/penstock?target_session_attrs=read-write")
    assert (named["HOST"], named["NAME"]) == ("db-1,db-2", "penstock")
    for url in (
        "mysql://h/x",
        "postgresql://u:hidden@h1,,h2/x",
        "postgresql://u:hidden@h1,h2:port/x",
        "sqlite://relative",
        "postgresql://h:hidden@/",
        "postgresql://u:hidden@h:port/x",
        "postgresql://u:hidden@h:99999/x",
        "postgresql://u:hidden/more@h/x",
        "postgresql://u:hidden@[h/x",
    ):
        with pytest.raises(ConfigurationError, match="database_url") as refused:
            config.database(url)
        assert "hidden" not in str(refused.value)
