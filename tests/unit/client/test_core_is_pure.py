"""The client's core decides and never acts: nothing in it reaches the world."""

import ast
from pathlib import Path

import penstock.client

FORBIDDEN = {
    "asyncio", "concurrent", "grpc", "multiprocessing", "os", "pathlib", "secrets", "select", "selectors", "signal",
    "socket", "ssl", "subprocess", "threading", "time", "uuid",
}  # fmt: skip


def test_the_core_imports_no_loop_no_network_no_thread_and_no_clock() -> None:
    found: list[str] = []
    for path in sorted(Path(penstock.client.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            found += [f"{path.name}: {name}" for name in names if name.split(".")[0] in FORBIDDEN]
    assert found == []


def test_randomness_is_drawn_only_from_what_the_core_is_given() -> None:
    for path in sorted(Path(penstock.client.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert "import random" not in text, path.name
        assert "Random(" not in text, path.name
