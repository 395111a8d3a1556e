"""Compile the hot cores with mypyc into a tree of their own: `make compile`.

`build/compiled` holds the packages `data_plane` and `penstock` again: a link to each file, and beside each module that
is compiled its extension module, which Python imports first. A process that has that folder first on its path runs
compiled cores; every other one runs pure Python. ninja compiles only what has changed, one file a processor.
"""

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from mypyc.build import mypycify
from setuptools import Extension

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "compiled"
WORK = ROOT / "build" / "compiling"
CONFIG = "packaging/mypyc.ini"
PACKAGES = ("data_plane", "penstock")
COMPILED = (
    "data_plane/authz",
    "data_plane/controller",
    "data_plane/disk",
    "data_plane/groups",
    "data_plane/log",
    "data_plane/metadata",
    "data_plane/metering",
    "data_plane/node",
    "data_plane/placement",
    "data_plane/replication",
    "data_plane/throttling",
    "penstock/build.py",
    "penstock/client",
    "penstock/contract",
    "penstock/records",
    "penstock/rules",
)
"""What each message meets on its way, in the broker and in the SDK."""
PURE = {
    "data_plane/node/membership/trusted_store.py": "an async generator",
    "penstock/client/arguments.py": "it says what is wrong with a user's argument, whatever its type",
    "penstock/client/settings.py": "the same",
    "penstock/client/producing/delivery.py": "the surfaces' deliveries are below its class",
    "penstock/contract/documents.py": "msgspec reads the annotations of its classes; mypyc keeps the plain ones only",
}
"""What stays pure Python among it, and why."""
_GROUP = "penstock_compiled"
"""The one shared library: with several, mypyc 2.4 reads properties of another one's exceptions from the wrong place."""
_OPTIMISATION = "2"


def sources() -> list[Path]:
    """The modules that are compiled, relative to the root."""
    found = [
        path.relative_to(ROOT)
        for one in COMPILED
        for path in (sorted((ROOT / one).rglob("*.py")) if (ROOT / one).is_dir() else [ROOT / one])
        if not path.name.endswith("_pb2.py") and path.stat().st_size
    ]
    return [path for path in found if str(path) not in PURE]


def main() -> int:
    os.chdir(ROOT)
    if shutil.which("gcc") is None or not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        print("compile: gcc and Python's headers are needed: make setup, as root", file=sys.stderr)
        return 2
    WORK.mkdir(parents=True, exist_ok=True)
    stamp, now = WORK / "compiled-from", _digest()
    if stamp.exists() and stamp.read_text() == now:
        print("compile: nothing has changed")
    else:
        # A tree of another source is not to be taken for this one if the rest fails.
        stamp.unlink(missing_ok=True)
        print(f"compile: {len(sources())} modules to C …", flush=True)
        rules = _write_rules(_generate())
        ninja = Path(sys.executable).with_name("ninja")
        done = subprocess.run([ninja, "-f", rules, "-j", str(os.cpu_count() or 1)])
        if done.returncode:
            return done.returncode
        _remove_others()
        stamp.write_text(now)
    _link()
    print(
        f"compile: compiled cores run where PYTHONPATH={TREE.relative_to(ROOT)} and PYTHONSAFEPATH=1 are set"
    )
    return 0


def _digest() -> str:
    """Of everything that decides what comes out."""
    digest = hashlib.sha256(f"{sys.version} {importlib.metadata.version('mypy')} {_OPTIMISATION}".encode())
    for path in [Path(__file__), Path(CONFIG), *_modules()]:
        digest.update(f"{path}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _modules() -> Iterator[Path]:
    """Everything whose types the compiled modules may see."""
    for package in PACKAGES:
        yield from sorted(path for path in Path(package).rglob("*.py*") if path.suffix in (".py", ".pyi"))


def _generate() -> list[Extension]:
    """The C files of all modules; those that are as before keep their time of change."""
    return mypycify(
        [f"--config-file={CONFIG}", f"--cache-dir={WORK / 'types'}", *map(str, sources())],
        multi_file=True,
        opt_level=_OPTIMISATION,
        debug_level="0",
        target_dir=str(WORK / "c"),
        group_name=_GROUP,
    )


def _write_rules(extensions: Sequence[Extension]) -> Path:
    """ninja's file: each C file to an object, the objects of an extension to its module."""
    lines = [
        f"builddir = {WORK}",
        "rule cc",
        "  command = gcc -fPIC -DNDEBUG -fwrapv $flags -MMD -MF $out.d -c $in -o $out",
        "  deps = gcc",
        "  depfile = $out.d",
        "  description = gcc $in",
        "rule link",
        "  command = gcc -shared $in -o $out",
        "  description = ld $out",
    ]
    written: set[Path] = set()
    headers = sysconfig.get_paths()["include"]
    for extension in extensions:
        flags = " ".join(
            [f"-I{each}" for each in (headers, *extension.include_dirs)] + extension.extra_compile_args
        )
        objects = [
            WORK / "objects" / Path(source).relative_to(WORK).with_suffix(".o")
            for source in extension.sources
        ]
        for source, made in zip(extension.sources, objects, strict=True):
            if made not in written:
                written.add(made)
                lines += [f"build {made}: cc {source}", f"  flags = {flags}"]
        lines.append(f"build {_module(extension.name)}: link {' '.join(map(str, objects))}")
    rules = WORK / "build.ninja"
    rules.write_text("\n".join(lines) + "\n")
    return rules


def _module(name: str) -> Path:
    return TREE / (name.replace(".", "/") + str(sysconfig.get_config_var("EXT_SUFFIX")))


def _remove_others() -> None:
    """Extension modules of what is compiled no longer: they would go before its source."""
    wanted = {_module(str(path.with_suffix("")).replace("/", ".")) for path in sources()}
    for path in TREE.rglob("*.so"):
        if path not in wanted and not path.name.startswith(_GROUP):
            path.unlink()


def _link() -> None:
    """A link to each file of the packages, and none to what is gone."""
    for package in PACKAGES:
        for path in Path(package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                link = TREE / path
                link.parent.mkdir(parents=True, exist_ok=True)
                if not link.is_symlink():
                    link.symlink_to(ROOT / path)
        for link in (TREE / package).rglob("*"):
            if link.is_symlink() and not link.exists():
                link.unlink()


if __name__ == "__main__":
    sys.exit(main())
