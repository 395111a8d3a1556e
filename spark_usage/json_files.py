"""JSON files that a reader sees whole."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_json(file: Path, values: Mapping[str, Any]) -> None:
    """Write by rename, durably: a reader sees the old file or the new one."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}.new")
    with fresh.open("w", encoding="utf-8") as output:
        json.dump(values, output, indent=1)
        output.write("\n")
        output.flush()
        os.fsync(output.fileno())
    fresh.replace(file)
