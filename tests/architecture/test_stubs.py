"""The committed protobuf stubs are what the protos say."""

import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE_S

from . import house

FOLDERS = ("penstock/contract/v1", "data_plane/contract", "data_plane/etcd")


def test_making_the_stubs_anew_changes_nothing(tmp_path: Path) -> None:
    protos = sorted(
        str(path.relative_to(house.ROOT)) for at in FOLDERS for path in (house.ROOT / at).glob("*.proto")
    )
    assert protos
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", "--proto_path=."),
            *(f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", *protos),
        ],
        cwd=house.ROOT,
        check=True,
        timeout=PATIENCE_S,
    )
    made = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*_pb2.py*")}
    committed = {
        str(path.relative_to(house.ROOT)): path.read_text()
        for at in FOLDERS
        for path in (house.ROOT / at).glob("*_pb2.py*")
    }
    assert made.keys() == committed.keys()
    drifted = [name for name in sorted(made) if made[name] != committed[name]]
    assert not drifted, f"run `make proto`: {drifted}"


def test_protobuf_classes_stop_at_the_adapters() -> None:
    """Cores, ports and pure rules know no generated class; the contract folders hold them."""
    inner = (*house.existing(house.CORES), *house.existing(house.PORTS), "penstock.records", "penstock.rules")
    found = [
        str(path.relative_to(house.ROOT))
        for path in house.modules(*house.existing(inner))
        if "_pb2" in path.read_text(encoding="utf-8")
    ]
    assert not found
