"""Compile the hot cores with mypyc into a tree of their own: `make compile`. `local/compiled_tree.py` says what a tree
is, and which there are.

`compile.py compiled-for-tests` makes the tree that `make test` runs. `compile.py compiled-sdk` makes `penstock` alone;
its extension modules go into the wheel that `make wheel COMPILED=1` builds. mypyc makes C files of all modules, which
takes one processor half a minute. ninja compiles what has changed of them, several modules in a unit, one unit a
processor.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

from local.compiled_tree import EVERYTHING, TREES, Tree

_ROOT = Path(__file__).resolve().parent.parent
_CONFIG = "packaging/mypyc.ini"
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
    "penstock/contract/anchor_documents.py": "msgspec reads annotations of its classes; mypyc keeps plain ones only",
    "penstock/contract/document_fields.py": "msgspec reads the options of its class; mypyc loses them",
    "penstock/contract/documents.py": "as anchor_documents",
    "penstock/contract/service_level_documents.py": "as anchor_documents",
    "penstock/contract/tax_documents.py": "as anchor_documents",
}
"""What stays pure Python among it, and why."""
_GROUP = "penstock_compiled"
"""The one shared library: with several, mypyc 2.4 reads properties of another one's exceptions from the wrong place.
It stands beside the packages: mypyc 2.4 takes the folder of a library in a package for the root of its modules."""
_LIBRARY = f"{_GROUP}__mypyc"
_HEADER = f'#include "__native_{_GROUP}.h"\n#include "__native_internal_{_GROUP}.h"\n'
"""How the C file of a module begins. These headers have two megabytes, so gcc reads them once for a unit of modules."""
_UNIT_BYTES_MAX = 2_000_000
"""Of C, unless a module alone has more. Units of that size keep all processors busy to the end."""
_SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The C files of mypyc, and how gcc compiles them."""

    digest: str
    """Of what they were made of."""
    modules: list[str]
    """Names of the compiled modules."""
    files: list[str]
    flags: list[str]
    """Without a level of optimisation."""


def modules(tree: Tree) -> list[Path]:
    """The modules of the tree that are compiled, relative to the root."""
    paths = [
        path.relative_to(_ROOT)
        for name in COMPILED
        if Path(name).parts[0] in tree.packages
        for path in (sorted((_ROOT / name).rglob("*.py")) if (_ROOT / name).is_dir() else [_ROOT / name])
        if not path.name.endswith("_pb2.py") and path.stat().st_size
    ]
    return [path for path in paths if str(path) not in PURE]


def main(name: str = EVERYTHING.name) -> int:
    tree = next(tree for tree in TREES if tree.name == name)
    os.chdir(_ROOT)
    if shutil.which("gcc") is None or not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
        print("compile: gcc and Python's headers are needed: make setup, as root", file=sys.stderr)
        return 2
    tree.work.mkdir(parents=True, exist_ok=True)
    with (tree.work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another one makes the same files
        return _make(tree)


def _make(tree: Tree) -> int:
    digest = tree.source_digest()
    if tree.is_fresh():
        print("compile: nothing has changed")
    else:
        # A tree of another source is not to be taken for this one if the rest fails.
        tree.stamp.unlink(missing_ok=True)
        generated = _generated(tree, digest)
        ninja = Path(sys.executable).with_name("ninja")
        rules = _write_rules(tree, generated)
        ran = subprocess.run([ninja, "-f", rules, "-j", str(os.cpu_count() or 1)])
        if ran.returncode:
            return ran.returncode
        _link(tree, generated.modules)
        tree.stamp.write_text(tree.stamp_of(digest))
    variables = " ".join(f"{name}={value}" for name, value in tree.variables.items())
    print(f"compile: compiled cores run where these are set: {variables}")
    return 0


def _generated(tree: Tree, digest: str) -> Generated:
    """The C files of all modules. Another tree of the same sources may have made them."""
    file = tree.work / "generated.json"
    if file.exists():
        generated = Generated(**json.loads(file.read_text()))
        if generated.digest == digest:
            return generated
        file.unlink()
    print(f"compile: {len(modules(tree))} modules to C …", flush=True)
    generated = _generate(tree, digest)
    file.write_text(json.dumps(asdict(generated)))
    return generated


def _generate(tree: Tree, digest: str) -> Generated:
    """Let mypyc make the C files; those that are as before keep their time of change."""
    from mypyc.build import mypycify  # it takes a second, and most calls find that nothing has changed

    library, *extensions = mypycify(
        [f"--config-file={_CONFIG}", f"--cache-dir={tree.work / 'types'}", *map(str, modules(tree))],
        multi_file=True,
        debug_level="0",
        target_dir=str(tree.work / "c"),
        group_name=_GROUP,
    )
    includes = [sysconfig.get_paths()["include"], *library.include_dirs]
    arguments = [flag for flag in library.extra_compile_args if not flag.startswith("-O")]
    return Generated(
        digest=digest,
        modules=[extension.name for extension in extensions],
        files=list(library.sources),
        flags=[*(f"-I{folder}" for folder in includes), *arguments],
    )


def _write_rules(tree: Tree, generated: Generated) -> Path:
    """ninja's file: each unit to an object, the objects to the library, and the loader."""
    objects = tree.work / f"objects-O{tree.optimisation}"
    objects.mkdir(exist_ok=True)
    # Only what starts a module is seen from outside, so calls within the library are plain calls.
    flags = f"-O{tree.optimisation} -fPIC -fvisibility=hidden -DNDEBUG -fwrapv {' '.join(generated.flags)}"
    lines = [
        f"builddir = {objects}",
        f"flags = {flags}",
        "rule cc",
        f"  command = {_compiler()} $flags $more -MMD -MF $out.d -c $in -o $out",
        "  deps = gcc",
        "  depfile = $out.d",
        "  description = gcc $in",
        "rule header",
        "  command = gcc $flags -MMD -MF $out.d -x c-header $in -o $out",
        "  deps = gcc",
        "  depfile = $out.d",
        "  description = gcc $in",
        "rule link",
        "  command = gcc -shared $in -o $out",
        "  description = ld $out",
    ]
    header = _write(objects / "header.h", _HEADER)
    compiled_header = header.with_name(f"{header.name}.gch")
    lines.append(f"build {compiled_header}: header {header}")
    made = []
    for source, has_header in _units(tree, generated):
        made.append(objects / f"{source.stem}.o")
        if has_header and _compiler() == "gcc":
            lines.append(f"build {made[-1]}: cc {source} | {compiled_header}")
            lines.append(f"  more = -include {header}")
        else:
            lines.append(f"build {made[-1]}: cc {source}")
    lines.append(f"build {tree.folder / (_LIBRARY + _SUFFIX)}: link {' '.join(map(str, made))}")
    loader = _write_loader(tree, generated.modules)
    lines.append(f"build {loader.with_suffix('.o')}: cc {loader}")
    lines.append(f"build {_loader(tree)}: link {loader.with_suffix('.o')}")
    return _write(objects / "build.ninja", "\n".join(lines) + "\n")


def _compiler() -> str:
    """ccache keeps objects for other checkouts too. A header that was compiled before would be in its way."""
    return "gcc" if shutil.which("ccache") is None else f"CCACHE_BASEDIR={_ROOT} ccache gcc"


def _units(tree: Tree, generated: Generated) -> Iterator[tuple[Path, bool]]:
    """The C files that gcc compiles, and whether each begins with the modules' header: those of mypyc's runtime
    together, the modules of a folder together, and the library's own file.
    """
    folder = tree.work / "units"
    folder.mkdir(exist_ok=True)
    files = [Path(file) for file in generated.files]
    runtime = [file for file in files if not file.name.startswith("__native_")]
    yield _write(folder / "runtime.c", _including(runtime)), False
    for file in files:
        if file.name == f"__native_{_GROUP}.c":
            yield file, False
    others = [file for file in files if file not in runtime and file.name != f"__native_{_GROUP}.c"]
    for package, members in groupby(sorted(others, key=_package_and_name), key=_package):
        for number, part in enumerate(_parts(list(members))):
            yield _write(folder / f"{package}_{number}.c", _HEADER + _including(part)), True


def _package(file: Path) -> str:
    """The package of the module whose C file it is."""
    return file.stem.removeprefix("__native_").rpartition("___")[0]


def _package_and_name(file: Path) -> tuple[str, str]:
    return _package(file), file.name


def _parts(files: Sequence[Path]) -> Iterator[list[Path]]:
    """The files in order, as many at a time as a unit has bytes."""
    part: list[Path] = []
    size = 0
    for file in files:
        if part and size + file.stat().st_size > _UNIT_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(file)
        size += file.stat().st_size
    yield part


def _including(files: Sequence[Path]) -> str:
    return "".join(f'#include "{file}"\n' for file in files)


def _write_loader(tree: Tree, names: Sequence[str]) -> Path:
    last_parts = sorted({_module_of(name).rpartition(".")[2] for name in names})
    text = f'#define LIBRARY "{_LIBRARY}"\n#include "{_ROOT}/packaging/loader.c"\n'
    text += "".join(f"LOADS({part})\n" for part in last_parts)
    return _write(tree.work / f"objects-O{tree.optimisation}" / "loader.c", text)


def _loader(tree: Tree) -> Path:
    return tree.work / f"objects-O{tree.optimisation}" / "loader.so"


def _module_of(extension: str) -> str:
    return extension.removesuffix(".__init__")


def _write(file: Path, text: str) -> Path:
    """A file that is as before keeps its time of change."""
    if not file.exists() or file.read_text() != text:
        file.write_text(text)
    return file


def _link(tree: Tree, names: Sequence[str]) -> None:
    """A link to each file of the packages and, for each compiled module, to the loader; none to what is gone."""
    targets = {tree.folder / (name.replace(".", "/") + _SUFFIX): _loader(tree) for name in names}
    for package in tree.packages:
        for path in Path(package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                targets[tree.folder / path] = _ROOT / path
    for path in tree.folder.rglob("*"):
        if path.is_symlink() and targets.get(path) != path.readlink():
            path.unlink()
        elif path.suffix == ".so" and not path.is_symlink() and path.parent != tree.folder:
            path.unlink()  # a module's own library, of an earlier version of this program
    for path, target in targets.items():
        if not path.is_symlink():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
