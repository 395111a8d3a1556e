"""The import contracts name every package of the house. That each would be seen to break is in
`test_import_contracts.py`.
"""

from . import house
from .test_import_contracts import CONTRACTS


def _packages_of_the_data_plane() -> set[str]:
    return {f"data_plane.{path.parent.name}" for path in (house.ROOT / "data_plane").glob("*/__init__.py")}


def test_every_package_of_the_data_plane_has_its_layer() -> None:
    written = _packages_of_the_data_plane()
    assert written <= {*house.CORES, *house.PORTS, *house.SHELLS, *house.OTHERS}
    layers = " ".join(CONTRACTS["layers"]["layers"])
    names = {part.strip("()\\,") for part in layers.replace("|", " ").split()}
    assert written | {"penstock.records", "penstock.contract", "penstock.rules"} <= names


def test_every_core_and_pure_package_is_kept_from_the_world() -> None:
    assert {*house.existing(house.CORES), *house.existing(house.PURE)} == {
        *CONTRACTS["cores-decide"]["source_modules"]
    }
