"""The compiled wheel: native modules beside their sources, which do for a tenant what the pure wheel does."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.records.batch import Compression
from tests.architecture.house import ROOT
from tests.integration.brokers import Brokers, brokers
from tests.integration.installed import Installation, build_wheel, install
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.compiled, pytest.mark.processes, pytest.mark.slow]

_AS_A_TENANT = ROOT / "tests" / "compiled" / "as_a_tenant.py"
_FROZEN = ROOT / "tests" / "golden" / "records"
_OTHER_PYTHON = "3.99"
_IMPORTED = (
    "import importlib, json, pkgutil, penstock\n"
    "names = [module.name for module in pkgutil.walk_packages(penstock.__path__, 'penstock.')]\n"
    "modules = [importlib.import_module(name) for name in names if not name.endswith('__main__')]\n"
    "print(json.dumps({module.__name__: module.__file__ for module in modules}))\n"
)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        "pure Python": build_wheel(tmp_path_factory.mktemp("pure")),
        "compiled": build_wheel(tmp_path_factory.mktemp("compiled"), compiled=True),
    }


@pytest.fixture(scope="module")
def tenants(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Installation]:
    """By the cores they run, environments that hold a wheel and what it requires."""
    folder = tmp_path_factory.mktemp("tenants")
    return {cores: install(wheel, folder / wheel.stem) for cores, wheel in wheels.items()}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("cluster"), 1) as running:
        yield running


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def native(wheel: Path) -> set[str]:
    """The modules that it holds compiled."""
    modules = {name.partition(".")[0] for name in names(wheel) if name.endswith(".so")}
    return {module.removesuffix("/__init__").replace("/", ".") for module in modules}


def test_the_compiled_wheel_is_the_pure_one_and_native_modules_of_its_sources(
    wheels: dict[str, Path],
) -> None:
    pure, compiled = names(wheels["pure Python"]), names(wheels["compiled"])
    (library,) = {name for name in compiled if "/" not in name}
    modules = {name for name in compiled - {library} if name.endswith(".so")}
    assert library.startswith("penstock_compiled__mypyc.")
    assert compiled - modules - {library} == pure
    assert {f"{name.partition('.')[0]}.py" for name in modules} < pure
    assert {"penstock.build", "penstock.records.batch", "penstock.rules.rating"} < native(wheels["compiled"])


def test_a_tenant_imports_every_native_module_and_is_told_so(
    wheels: dict[str, Path], tenants: dict[str, Installation], tmp_path: Path
) -> None:
    ran = tenants["compiled"].run("python", "-W", "error", "-c", _IMPORTED, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    files: dict[str, str] = json.loads(ran.stdout)
    library = "penstock_compiled__mypyc"
    assert {name for name, file in files.items() if file.endswith(".so")} == native(wheels["compiled"]) - {
        library
    }
    for cores, tenant in tenants.items():
        assert f"(cores: {cores}, " in tenant.run("penstock", "--version", cwd=tmp_path).stdout


def test_pip_takes_the_compiled_wheel_where_it_fits_and_the_pure_one_elsewhere(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    found = [argument for wheel in wheels.values() for argument in ("--find-links", str(wheel.parent))]

    def taken(*python: str) -> str:
        folder = tmp_path / "-".join(("taken", *python))
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
                *(
                    "--no-index",
                    "--no-deps",
                    "--only-binary",
                    ":all:",
                    *found,
                    *python,
                    "--dest",
                    str(folder),
                ),
                "penstock",
            ],
            check=True,
            timeout=PATIENCE_S,
        )
        (wheel,) = folder.iterdir()
        return wheel.name

    assert taken() == wheels["compiled"].name
    assert taken("--python-version", _OTHER_PYTHON) == wheels["pure Python"].name


def test_a_tenant_gets_the_same_from_both_wheels(
    tenants: dict[str, Installation], cluster: Brokers, tmp_path: Path
) -> None:
    pure, compiled = (
        report(tenants[cores], cores, cluster, tmp_path) for cores in ("pure Python", "compiled")
    )
    for what, said in pure.items():
        assert compiled[what] == said, what
    assert compiled["batches"]["none"] == (_FROZEN / "batch-none.bin").read_bytes().hex()
    assert len(set(compiled["batches"].values())) == len(Compression)
    assert len(compiled["messages"]) == 3 * len(Compression)


def report(tenant: Installation, cores: str, cluster: Brokers, folder: Path) -> dict[str, Any]:
    """What `as_a_tenant.py` says of an installation, which runs these cores and has a topic of its own."""
    user = cluster.tenant(f"tn_{cores.split()[0]}")
    cluster.create_topic(user, "orders", partitions=2)
    ran = tenant.run(
        *("python", "-W", "error", str(_AS_A_TENANT), str(_FROZEN), cluster.bootstrap[0]),
        cwd=folder,
        environment={"PENSTOCK_API_KEY": user.api_key},
    )
    assert ran.returncode == 0, ran.stderr
    said: dict[str, Any] = json.loads(ran.stdout)
    assert said.pop("cores") == cores
    return said
