"""The folder of peppers that are made while the service runs: one file for each version, and which one is in use.

    1.made, ... when that version was made, in seconds since 1970: a copy of the folder is as old as the folder
    1, 2, ...   64 hex digits and a line end; named after its version, written once and never changed
    current     the version that new keys and rehashed ones get; replaced as a whole

A process that meets a version which it does not know reads the folder again. A file that is being copied is not whole
and is left out until it is. `current` names a version only after every broker had it.
"""

import logging
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from penstock.private_file import write_private

CURRENT = "current"
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_MOMENT = re.compile(r"[1-9][0-9]{0,11}")
_PEPPER = re.compile(r"[0-9a-f]{64}\n")
_log = logging.getLogger(__name__)


def read_all(folder: Path) -> dict[int, bytes | None]:
    """Every version that has a file; None for one that is not whole, or cannot be read, which is logged.

    Raises `OSError`, where there is no folder too.
    """
    found: dict[int, bytes | None] = {}
    for version in _listed(folder):
        try:
            found[version] = read_one(folder, version)
        except OSError as error:
            _log.warning(
                "a pepper cannot be read", extra={"file": str(folder / str(version)), "error": str(error)}
            )
            found[version] = None
    return found


def read_one(folder: Path, version: int) -> bytes | None:
    """The pepper of that version; None if there is none, or it is not whole. Raises `OSError`."""
    try:
        text = (folder / str(version)).read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        return None
    return bytes.fromhex(text) if _PEPPER.fullmatch(text) else None


def made_at(folder: Path, version: int) -> float:
    """When the version was made, in seconds since 1970. Without a note of it, as of releases before this one, or with
    one that says nothing, it is the age of the file. Raises `OSError`.
    """
    file = folder / str(version)
    changed = file.stat().st_mtime
    with suppress(FileNotFoundError, UnicodeDecodeError):
        text = _made_file(folder, version).read_text(encoding="ascii").strip()
        if _MOMENT.fullmatch(text):
            # A file is never older than its content, so a later moment is wrong.
            return min(changed, float(text))
    return changed


def current(folder: Path) -> int | None:
    """The version in use; None before the first one. Raises `OSError`, `ValueError`."""
    try:
        text = (folder / CURRENT).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{folder / CURRENT}: a version required")
    return int(text)


def use(folder: Path, version: int) -> None:
    """New keys get that version from now on. Every broker must have it. Raises `OSError`."""
    write_private(folder / CURRENT, f"{version}\n")


def make(folder: Path, version: int) -> bool:
    """Make the version; False if it is there. Of several processes one makes it. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    whole = folder / f".{version}.{secrets.token_hex(8)}"
    try:
        write_private(whole, secrets.token_hex(32) + "\n")
        if not (folder / str(version)).exists():
            write_private(_made_file(folder, version), f"{int(whole.stat().st_mtime)}\n")
        # Unlike a rename this fails where the version is there.
        os.link(whole, folder / str(version))
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            whole.unlink()
    _sync(folder)
    return True


def remove(folder: Path, version: int) -> None:
    """No key needs it any more. Raises `OSError`."""
    with suppress(FileNotFoundError):
        (folder / str(version)).unlink()
        _made_file(folder, version).unlink(missing_ok=True)
        _sync(folder)


def versions(folder: Path) -> list[int]:
    """The versions that have a file, whole or not, in order. Raises `OSError`."""
    try:
        return _listed(folder)
    except FileNotFoundError:
        return []


def _made_file(folder: Path, version: int) -> Path:
    return folder / f"{version}.made"


def _listed(folder: Path) -> list[int]:
    return sorted(int(name) for name in os.listdir(folder) if _VERSION.fullmatch(name))


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
