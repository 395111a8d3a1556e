"""What `penstock config check` says of configurations, right and wrong, without starting anything."""

import json
import os
import random
import secrets
import socket
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon import commands
from daemon.commands import Checked, findings
from daemon.config_check import LINE_MAX, State, one_line, usable_folder
from tests import certificates
from tests.control_plane.configuration import write

HIDDEN = "hunter2-hunter2-hunter2"
WITH_PASSWORD = f"postgresql://penstock:{HIDDEN}@127.0.0.1:1/penstock"


def secret_file(file: Path, text: str) -> str:
    file.write_text(text + "\n")
    file.chmod(0o600)
    return str(file)


def identity(folder: Path, name: str, **options: Any) -> dict[str, str]:
    files = certificates.write(folder / "identity", name, **({"days": 365} | options))
    files.key_file.chmod(0o600)
    return certificates.settings(files)


def broker_values(folder: Path) -> dict[str, Any]:
    return {
        "broker_id": 1,
        "cluster_id": certificates.CLUSTER,
        "data": str(folder / "data"),
        "metadata": str(folder / "metadata.sqlite"),
        "identity": identity(folder, "broker-1"),
        "pepper_files": {"1": secret_file(folder / "pepper", secrets.token_hex(32))},
    }


def server_values(folder: Path) -> dict[str, Any]:
    file = write(folder, f"sqlite:///{folder}/control.sqlite")
    (folder / "pepper").chmod(0o600)
    values: dict[str, Any] = json.loads(file.read_text())
    return values | {"listen": "127.0.0.1:0", "identity": identity(folder, "control-plane")}


def checked(
    folder: Path, values: Any, kind: str | None = None, *, connect: bool = False, **environment: str
) -> tuple[Checked, ...]:
    file = folder / "checked.json"
    file.write_text(values if isinstance(values, str) else json.dumps(values))
    found = findings(file, kind, {"PATH": os.environ["PATH"], **environment}, connect=connect)
    assert found
    for one in found:
        assert one.kinds and len(one.finding.text) <= LINE_MAX
        assert one.finding.text.isprintable() and one.finding.text, "one line"
        assert HIDDEN not in one.finding.text
    return found


def wrong(found: tuple[Checked, ...]) -> dict[str, str]:
    return {one.finding.setting: one.finding.text for one in found if one.finding.state is State.WRONG}


def test_a_brokers_file_is_known_by_its_content_and_nothing_is_wrong_with_it(tmp_path: Path) -> None:
    found = checked(tmp_path, broker_values(tmp_path), connect=True)
    assert {one.kinds for one in found} == {("broker",)} and wrong(found) == {}
    assert not (tmp_path / "data").exists() and not (tmp_path / "metadata.sqlite").exists(), "nothing is made"


def test_the_services_file_is_for_web_worker_and_runner(tmp_path: Path) -> None:
    found = checked(tmp_path, server_values(tmp_path))
    assert {kind for one in found for kind in one.kinds} == {"web", "worker", "runner"}
    assert set(wrong(found)) <= {"JAVA_HOME"}
    assert {one.kinds for one in checked(tmp_path, server_values(tmp_path), "worker")} == {("worker",)}


def test_every_wrong_value_is_told_at_once(tmp_path: Path) -> None:
    values = broker_values(tmp_path) | {"broker_id": "one", "zonne": "a", "limits": 3}
    del values["cluster_id"]
    assert wrong(checked(tmp_path, values)) == {
        "broker_id": "a whole number required, text given",
        "zonne": "no such setting; did you mean zone?",
        "limits": "an object required, a whole number given",
        "cluster_id": "missing; give it a value",
    }
    nested = server_values(tmp_path)
    nested["brokers"]["pepper_version"] = 0
    nested["trusted_proxies"] = [1]
    found = wrong(checked(tmp_path, nested, "web"))
    assert found == {
        "brokers.pepper_version": "a whole number of at least 1 required",
        "trusted_proxies[0]": "text required, a whole number given",
    }


def test_what_several_values_say_together_is_told_when_each_is_right(tmp_path: Path) -> None:
    values = broker_values(tmp_path) | {"client_listen": "192.0.2.1:9092"}
    assert "API keys need TLS there" in wrong(checked(tmp_path, values))["client_listen"]


def test_variables_stand_above_the_file(tmp_path: Path) -> None:
    values = broker_values(tmp_path)
    assert wrong(checked(tmp_path, values, PENSTOCK_BROKER_BROKER_ID="x")) == {
        "PENSTOCK_BROKER_BROKER_ID": "is not JSON, as numbers, lists and objects are there"
    }
    assert wrong(checked(tmp_path, values | {"broker_id": "x"}, PENSTOCK_BROKER_BROKER_ID="1")) == {}


def test_files_that_cannot_be_used_are_told_with_what_to_do(tmp_path: Path) -> None:
    values = broker_values(tmp_path)
    values["identity"]["ca_file"] = str(tmp_path / "none")
    values["pepper_files"]["2"] = secret_file(tmp_path / "short", "abcd")
    (tmp_path / "pepper").chmod(0o644)
    (tmp_path / "a-file").touch()
    values["data"] = str(tmp_path / "a-file" / "data")
    found = [one.finding for one in checked(tmp_path, values) if one.finding.state is State.WRONG]
    texts = {one.setting: one.text for one in reversed(found)}
    assert "No such file or directory; make the file" in texts["identity.ca_file"]
    assert "at least 32 hex digits" in texts["pepper_files.2"]
    assert "others can read or change; chmod" in texts["pepper_files.1"]
    assert texts["data"] == f"{tmp_path / 'a-file'} is a file; name a folder"


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("broker-2", {}, "one of broker/1 required"),
        ("control-plane", {}, "one of broker/1 required"),
        ("broker-1", {"ca": certificates.authority("another")}, "one of cluster c1 required"),
        ("broker-1", {"begins_in": timedelta(days=1)}, "is not valid before"),
        ("broker-1", {"begins_in": timedelta(days=-9), "days": 8}, "expired"),
        ("broker-1", {"believed": [certificates.authority("c1", "other")]}, "authority"),
    ],
)
def test_a_certificate_that_is_not_the_processs_own_or_not_good_now_is_told(
    tmp_path: Path, name: str, options: dict[str, Any], says: str
) -> None:
    values = broker_values(tmp_path) | {"identity": identity(tmp_path, name, **options)}
    found = wrong(checked(tmp_path, values))
    assert len(found) == 1
    (text,) = found.values()
    assert says in text and "`penstock cluster certificates` makes and renews them" in text


def test_a_certificate_that_ends_soon_is_told_and_does_not_keep_a_process_from_its_start(
    tmp_path: Path,
) -> None:
    values = broker_values(tmp_path) | {"identity": identity(tmp_path, "broker-1", days=3)}
    found = checked(tmp_path, values)
    assert wrong(found) == {}
    (doubtful,) = [one.finding.text for one in found if one.finding.state is State.DOUBTFUL]
    assert "expires in" in doubtful and "put a new one there" in doubtful


@pytest.mark.parametrize(
    ("options", "state", "says"),
    [
        ({"days": 365}, State.OK, "is valid for"),
        ({"days": 3}, State.DOUBTFUL, "put a new one there"),
        ({"begins_in": timedelta(days=-9), "days": 8}, State.WRONG, "put one there that is valid now"),
        ({"begins_in": timedelta(days=1), "days": 8}, State.WRONG, "put one there that is valid now"),
    ],
)
def test_the_certificate_that_clients_see_is_looked_at_too(
    tmp_path: Path, options: dict[str, Any], state: State, says: str
) -> None:
    files = certificates.write(tmp_path / "clients", "broker-1", **options)
    files.key_file.chmod(0o600)
    values = broker_values(tmp_path) | {
        "tls_certificate_file": str(files.certificate_file),
        "tls_key_file": str(files.key_file),
    }
    found = [
        one.finding for one in checked(tmp_path, values) if one.finding.setting == "tls_certificate_file"
    ]
    assert (found[-1].state, says in found[-1].text) == (state, True), found


def test_two_listeners_on_one_address_are_told(tmp_path: Path) -> None:
    values = broker_values(tmp_path) | {"client_listen": "127.0.0.1:19092", "peer_listen": "127.0.0.1:19092"}
    assert wrong(checked(tmp_path, values)) == {
        "peer_listen": "127.0.0.1:19092 is client_listen's already; give each listener a port of its own"
    }


def test_addresses_that_cannot_be_listened_on_are_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        values = server_values(tmp_path) | {"listen": f"127.0.0.1:{port}"}
        assert "a process listens there already" in wrong(checked(tmp_path, values, "web"))["listen"]
        assert wrong(checked(tmp_path, values, "worker")) == {}, "it listens elsewhere"
    values["listen"] = "192.0.2.1:8080"
    assert "no address of this host" in wrong(checked(tmp_path, values, "web"))["listen"]


def test_stores_are_asked_on_request_alone(tmp_path: Path) -> None:
    values = server_values(tmp_path) | {
        "database_url": WITH_PASSWORD,
        "celery_broker_url": f"redis://:{HIDDEN}@127.0.0.1:1/0",
    }
    assert wrong(checked(tmp_path, values, "worker")) == {}
    found = wrong(checked(tmp_path, values, "worker", connect=True))
    assert found.keys() == {"database_url", "celery_broker_url", "brokers.internal"}
    assert "start it, or correct the address" in found["database_url"]
    broker = broker_values(tmp_path) | {
        "metadata": {"kind": "etcd", "endpoints": ["127.0.0.1:1"], "call_ms": 200}
    }
    assert "does not answer" in wrong(checked(tmp_path, broker, connect=True))["metadata"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"broker_id": 1, "broker_id": 2}', "\ufeff{}", "{}", "3"]
)
def test_what_is_no_configuration_is_one_finding(tmp_path: Path, text: str) -> None:
    (one,) = checked(tmp_path, text)
    assert one.finding.state is State.WRONG and one.kinds == ("?",)


def test_the_command_ends_with_0_or_1_and_prints_rows_or_json(tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    file.write_text(json.dumps(broker_values(tmp_path)))
    right = CliRunner().invoke(commands.config, ["check", str(file)])
    assert right.exit_code == 0 and "Nothing is wrong." in right.stderr
    file.write_text(json.dumps(broker_values(tmp_path) | {"zone": 3}))
    refused = CliRunner().invoke(commands.config, ["check", str(file), "--json"])
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["findings"] == [
        {
            "for": ["broker"],
            "setting": "zone",
            "state": "wrong",
            "text": "text required, a whole number given",
        }
    ]
    assert CliRunner().invoke(commands.config, ["check", str(tmp_path / "none.json")]).exit_code == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{WITH_PASSWORD} is wrong", "postgresql://penstock:…@127.0.0.1:1/penstock is wrong"),
        (f"redis://:{HIDDEN}@h/0", "redis://:…@h/0"),
        ("a\nb\x1b[0m", "a\\nb\\x1b[0m"),
    ],
)
def test_a_finding_is_one_line_without_a_password(text: str, shown: str) -> None:
    assert one_line(text) == shown
    assert len(one_line("x" * 10_000)) == LINE_MAX


_LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.sampled_from(
        [WITH_PASSWORD, "127.0.0.1:99999", "/dev/null", "/proc/self/mem", "\0", "[::1", "x" * 5000]
    ),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Mapping[str, Any], ...]]:
    folder = tmp_path_factory.mktemp("templates")
    return folder, (broker_values(folder), server_values(folder))


def test_a_folder_whose_name_no_disk_takes_is_refused(tmp_path: Path) -> None:
    found = usable_folder("datasets", tmp_path / ("x" * 300))
    assert found.state is State.WRONG and found.text.startswith("File name too long; name another folder")


@settings(deadline=None, max_examples=200)
@given(
    chosen=st.integers(0, 1), changes=st.lists(st.tuples(st.integers(0, 40), _LEAF), min_size=1, max_size=4)
)
def test_no_file_whatever_is_in_it_ends_the_check_or_shows_a_password(
    templates: tuple[Path, tuple[Mapping[str, Any], ...]], chosen: int, changes: list[tuple[int, Any]]
) -> None:
    folder, each = templates
    values = dict(each[chosen])
    for number, value in changes:
        names = [*values, "extra", f"a\n{number}"]
        values[names[number % len(names)]] = value
    for kind in (None, *commands.NAMES):
        checked(folder, values, kind)


@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_no_damaged_file_ends_the_check_or_shows_a_password(
    templates: tuple[Path, tuple[Mapping[str, Any], ...]], seed: int
) -> None:
    folder, each = templates
    dice = random.Random(seed)
    data = bytearray(json.dumps(dict(each[seed % 2]) | {"database_url": WITH_PASSWORD}).encode())
    for _ in range(dice.randrange(1, 5)):
        at = dice.randrange(len(data))
        data[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
    file = folder / "damaged.json"
    file.write_bytes(bytes(data))
    for kind in (None, *commands.NAMES):
        for one in findings(file, kind, {}, connect=False):
            assert one.finding.text.isprintable() and len(one.finding.text) <= LINE_MAX
            assert HIDDEN not in one.finding.text
