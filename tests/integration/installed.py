"""The wheel as a tenant gets it: built from the tree and installed beside nothing but what it requires."""

import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
_CORES_THAT_RUN = ("PYTHONPATH", "PYTHONSAFEPATH")
"""What `make` sets for tests on compiled cores."""


def build_wheel(folder: Path, *, compiled: bool = False, of: Path = ROOT) -> Path:
    """Build the wheel of a tree or of a source distribution into `folder`, which has none. It uses no network, and it
    does not matter which cores run here.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _CORES_THAT_RUN}
    if compiled:
        environment["HATCH_BUILD_HOOK_ENABLE_CUSTOM"] = "1"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-index"),
            *("--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(of)),
        ],
        check=True,
        env=environment,
        timeout=PATIENCE_S,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def required_by(requirements: Sequence[str]) -> dict[str, Distribution]:
    """All distributions that the requirements lead to, by name; unasked extras stay outside."""
    found: dict[str, Distribution] = {}
    waiting = [(Requirement(line), "") for line in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        if name not in found:
            found[name] = distribution(name)
        for line in found[name].requires or ():
            inner = Requirement(line)
            if canonicalize_name(inner.name) not in found:
                waiting += [(inner, asked) for asked in ("", *sorted(requirement.extras))]
    return found


@dataclass(frozen=True, slots=True)
class Installation:
    """A virtual environment that holds the wheel and what it requires."""

    folder: Path

    def run(
        self, *command: str, cwd: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its programs, with nothing of this test's environment but what is given."""
        program, *arguments = command
        return subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            cwd=cwd,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(cwd), **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


def install(wheel: Path, folder: Path) -> Installation:
    """Install the wheel into an empty environment, and link what its metadata requires out of this one.

    The links make the installation quick and independent of a network; nothing that the wheel does not
    require, the tree's own folder above all, is reachable from it.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "--python",
                str(folder / "bin/python"),
            ),
            *("install", "--quiet", "--no-index", "--no-deps", str(wheel)),
        ],
        check=True,
        timeout=PATIENCE_S,
    )
    (metadata,) = packages.glob("penstock-*.dist-info")
    requirements = Distribution.at(metadata).requires or []
    for dependency in required_by(requirements).values():
        _link(dependency, packages)
    return Installation(folder)


def _link(dependency: Distribution, packages: Path) -> None:
    for file in dependency.files or ():
        top = file.parts[0]
        if top in {"..", "__pycache__"} or (packages / top).is_symlink():
            continue
        if top == "google":
            # A namespace that several distributions share: link what is below it.
            (packages / top).mkdir(exist_ok=True)
            if len(file.parts) > 1 and not (packages / top / file.parts[1]).exists():
                os.symlink(str(dependency.locate_file(Path(*file.parts[:2]))), packages / top / file.parts[1])
            continue
        os.symlink(str(dependency.locate_file(top)), packages / top)
