"""The wheel holds the SDK alone, works with what it requires, and says what to install for the rest."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

from .installed import ROOT, Installation, build_wheel, install

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def tenant(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return install(wheel, tmp_path_factory.mktemp("tenant") / "venv")


def test_the_wheel_holds_the_penstock_folder_and_its_metadata_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    folders = {name.split("/")[0] for name in names}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"penstock"}
    assert len(folders) == 2
    assert "penstock/py.typed" in names
    assert "penstock/contract/v1/log_pb2.py" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.parametrize(
    "package", ["data_plane", "control_plane", "tenants", "billing", "django", "pyspark"]
)
def test_no_server_package_is_importable_beside_the_wheel(
    tenant: Installation, tmp_path: Path, package: str
) -> None:
    tried = tenant.run("python", "-c", f"import {package}", cwd=tmp_path)
    assert tried.returncode == 1
    assert f"ModuleNotFoundError: No module named '{package}'" in tried.stderr


def test_every_module_of_the_wheel_imports_with_what_the_wheel_requires(
    tenant: Installation, tmp_path: Path
) -> None:
    script = (
        "import importlib, pkgutil, penstock\n"
        "for module in pkgutil.walk_packages(penstock.__path__, 'penstock.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "        print(module.name)\n"
    )
    walked = tenant.run("python", "-W", "error", "-c", script, cwd=tmp_path)
    assert walked.returncode == 0, walked.stderr
    assert "penstock.contract.v1.log_pb2" in walked.stdout.split()


def test_the_version_says_which_cores_and_which_codec_are_in_use(
    tenant: Installation, tmp_path: Path
) -> None:
    said = tenant.run("penstock", "--version", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "(cores: pure Python, codec: compiled)" in said.stdout


def test_a_source_distribution_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path)],
        cwd=ROOT,
        check=True,
        timeout=PATIENCE_S,
    )
    (source,) = tmp_path.glob("*.tar.gz")
    built = build_wheel(tmp_path, of=source)
    assert built.name == wheel.name
    assert built.read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize(
    "command",
    [
        ("dev", "up"),
        ("dev", "status"),
        ("broker", "run", "--config", "broker.json"),
        *(("server", name, "--config", "server.json") for name in ("web", "worker", "runner")),
        ("config", "check", "server.json"),
    ],
)
def test_a_server_command_says_what_to_install(
    tenant: Installation, tmp_path: Path, command: tuple[str, ...]
) -> None:
    said = tenant.run("penstock", *command, cwd=tmp_path)
    assert said.returncode not in {0, 1}
    assert "server" in said.stderr and "install" in said.stderr
    assert "Traceback" not in said.stderr
