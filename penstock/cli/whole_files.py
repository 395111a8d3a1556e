"""Files that take their names only when they are whole."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from penstock.cli.streams import NO_MORE_FITS
from penstock.contract.errors import ConfigurationError


@contextmanager
def whole_file(file: Path) -> Iterator[BinaryIO]:
    """A file that takes its name only when it is whole, and is for its owner alone: a bundle may hold messages."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w+b") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(name, file)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in NO_MORE_FITS:
            raise ConfigurationError(f"{file}: cannot be written: {error.strerror}") from None
        raise
