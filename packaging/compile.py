"""Compile the hot cores with mypyc into a tree of their own: `make compile`.

`build/compiled` holds the packages `data_plane` and `penstock` again: a link to each file, and beside each module that
is compiled its extension module, which Python imports first. A process that has that folder first on its path runs
compiled cores; every other one runs pure Python. `compile.py sdk` makes `build/compiled-sdk` of `penstock` alone; its
extension modules go into the wheel that `make wheel COMPILED=1` builds. ninja compiles only what has changed, one file
a processor.
"""

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mypyc.build import mypycify
from setuptools import Extension

ROOT = Path(__file__).resolve().parent.parent
CONFIG = "packaging/mypyc.ini"
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
    "penstock/blocking/sending.py",
    "penstock/build.py",
    "penstock/client",
    "penstock/contract",
    "penstock/records",
    "penstock/rules",
)
"""What each message meets on its way, in the broker and in the SDK."""
PURE = {
    "data_plane/node/groups/group_seats.py": "a context manager that is an async generator",
    "data_plane/node/membership/trusted_store.py": "an async generator",
    "penstock/client/arguments.py": "it says what is wrong with a user's argument, whatever its type",
    "penstock/client/settings.py": "the same",
    "penstock/client/messages.py": "msgspec makes its class of messages",
    "penstock/client/producing/delivery.py": "msgspec makes its class, and those of the surfaces are below it",
    "penstock/contract/documents.py": "msgspec reads the annotations of its classes; mypyc keeps the plain ones only",
    "penstock/contract/service_level_documents.py": "the same",
}
"""What stays pure Python among it, and why."""
_GROUP = "penstock_compiled"
"""The one shared library: with several, mypyc 2.4 reads properties of another one's exceptions from the wrong place.
It stands beside the packages: mypyc 2.4 takes the folder of a library in a package for the root of its modules."""
_HEADERS = {
    "module.h": f'#include "__native_{_GROUP}.h"\n#include "__native_internal_{_GROUP}.h"\n',
    "extension.h": "#include <Python.h>\n\n",
}
"""How C files of mypyc begin: those of modules, and those that Python loads as an extension."""
_OPTIMISATION = os.environ.get("OPTIMISATION", "2")
"""gcc's level. `make test` asks for a lower one: what it runs is to be right, and is compiled for one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Packages with what is compiled of them, and where that is made."""

    packages: tuple[str, ...]
    """They import each other and no other package of the checkout."""
    folder: Path
    work: Path


TREES = {
    "everything": Tree(
        packages=("data_plane", "penstock"),
        folder=ROOT / "build" / "compiled",
        work=ROOT / "build" / "compiling",
    ),
    "sdk": Tree(
        packages=("penstock",),
        folder=ROOT / "build" / "compiled-sdk",
        work=ROOT / "build" / "compiling-sdk",
    ),
}


def sources(tree: Tree) -> list[Path]:
    """The modules of the tree that are compiled, relative to the root."""
    found = [
        path.relative_to(ROOT)
        for one in COMPILED
        if Path(one).parts[0] in tree.packages
        for path in (sorted((ROOT / one).rglob("*.py")) if (ROOT / one).is_dir() else [ROOT / one])
        if not path.name.endswith("_pb2.py") and path.stat().st_size
    ]
    return [path for path in found if str(path) not in PURE]


def main(name: str = "everything") -> int:
    tree = TREES[name]
    os.chdir(ROOT)
    if shutil.which("gcc") is None or not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        print("compile: gcc and Python's headers are needed: make setup, as root", file=sys.stderr)
        return 2
    tree.work.mkdir(parents=True, exist_ok=True)
    stamp, now = tree.work / "compiled-from", _digest(tree)
    if stamp.exists() and stamp.read_text() == now:
        print("compile: nothing has changed")
    else:
        # A tree of another source is not to be taken for this one if the rest fails.
        stamp.unlink(missing_ok=True)
        print(f"compile: {len(sources(tree))} modules to C …", flush=True)
        rules = _write_rules(tree, _generate(tree))
        ninja = Path(sys.executable).with_name("ninja")
        done = subprocess.run([ninja, "-f", rules, "-j", str(os.cpu_count() or 1)])
        if done.returncode:
            return done.returncode
        _remove_others(tree)
        stamp.write_text(now)
    _link(tree)
    path = tree.folder.relative_to(ROOT)
    print(f"compile: compiled cores run where PYTHONPATH={path} and PYTHONSAFEPATH=1 are set")
    return 0


def _digest(tree: Tree) -> str:
    """Of everything that decides what comes out."""
    digest = hashlib.sha256(f"{sys.version} {importlib.metadata.version('mypy')} {_OPTIMISATION}".encode())
    for path in [Path(__file__), Path(CONFIG), *_modules(tree)]:
        digest.update(f"{path}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _modules(tree: Tree) -> Iterator[Path]:
    """Everything whose types the compiled modules may see."""
    for package in tree.packages:
        yield from sorted(path for path in Path(package).rglob("*.py*") if path.suffix in (".py", ".pyi"))


def _generate(tree: Tree) -> list[Extension]:
    """The C files of all modules; those that are as before keep their time of change."""
    return mypycify(
        [f"--config-file={CONFIG}", f"--cache-dir={tree.work / 'types'}", *map(str, sources(tree))],
        multi_file=True,
        opt_level=_OPTIMISATION,
        debug_level="0",
        target_dir=str(tree.work / "c"),
        group_name=_GROUP,
    )


def _write_rules(tree: Tree, extensions: Sequence[Extension]) -> Path:
    """ninja's file: each C file to an object, the objects of an extension to its module."""
    lines = [
        f"builddir = {tree.work}",
        "rule cc",
        "  command = gcc -fPIC -DNDEBUG -fwrapv $flags -MMD -MF $out.d -c $in -o $out",
        "  deps = gcc",
        "  depfile = $out.d",
        "  description = gcc $in",
        "rule header",
        "  command = gcc -fPIC -DNDEBUG -fwrapv $flags -MMD -MF $out.d -x c-header $in -o $out",
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
            tree.work / "objects" / Path(source).relative_to(tree.work).with_suffix(".o")
            for source in extension.sources
        ]
        for source, made in zip(extension.sources, objects, strict=True):
            if made not in written:
                written.add(made)
                header = _header(tree, Path(source))
                if header is None:
                    lines += [f"build {made}: cc {source}", f"  flags = {flags}"]
                    continue
                compiled = header.with_name(f"{header.name}.gch")
                if compiled not in written:
                    written.add(compiled)
                    lines += [f"build {compiled}: header {header}", f"  flags = {flags}"]
                lines += [f"build {made}: cc {source} | {compiled}", f"  flags = {flags} -include {header}"]
        lines.append(f"build {_module(tree, extension.name)}: link {' '.join(map(str, objects))}")
    rules = tree.work / "build.ninja"
    rules.write_text("\n".join(lines) + "\n")
    return rules


def _header(tree: Tree, source: Path) -> Path | None:
    """A header of all that the C file of a module, or of its extension, includes. It is compiled once for all of them:
    those of the classes have two megabytes, and gcc would spend more on them than on most modules.
    """
    with source.open() as text:
        start = text.read(200)
    for name, lines in _HEADERS.items():
        if start.startswith(lines):
            header = tree.work / "headers" / name
            header.parent.mkdir(exist_ok=True)
            if not header.exists() or header.read_text() != lines:
                header.write_text(lines)
            return header
    return None


def _module(tree: Tree, name: str) -> Path:
    return tree.folder / (name.replace(".", "/") + str(sysconfig.get_config_var("EXT_SUFFIX")))


def _remove_others(tree: Tree) -> None:
    """Extension modules of what is compiled no longer, which would go before its source, and of another Python."""
    names = [str(path.with_suffix("")).replace("/", ".") for path in sources(tree)]
    wanted = {_module(tree, name) for name in (*names, f"{_GROUP}__mypyc")}
    for path in tree.folder.rglob("*.so"):
        if path not in wanted:
            path.unlink()


def _link(tree: Tree) -> None:
    """A link to each file of the packages, and none to what is gone."""
    for package in tree.packages:
        for path in Path(package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                link = tree.folder / path
                link.parent.mkdir(parents=True, exist_ok=True)
                if not link.is_symlink():
                    link.symlink_to(ROOT / path)
        for link in (tree.folder / package).rglob("*"):
            if link.is_symlink() and not link.exists():
                link.unlink()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
