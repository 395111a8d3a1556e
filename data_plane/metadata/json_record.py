"""What most values of the metadata store are: plain JSON objects of their fields."""

import json
from dataclasses import asdict
from typing import Self


class JsonRecord:
    """Values that are plain JSON objects of their fields."""

    __slots__ = ()

    def encode(self) -> bytes:
        values = asdict(self)  # type: ignore[call-overload]
        return json.dumps(values, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        return cls(**json.loads(value))
