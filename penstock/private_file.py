"""A file that only its owner reads, replaced as a whole: at any moment there is the old one or the new one."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Write the file and make it durable; its folder is made if there is none. Raises `OSError`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as output:
            output.write(text)
            output.flush()
            os.fsync(output.fileno())
        os.replace(name, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
