"""The pipeline's configuration: the service's one JSON file, named by PENSTOCK_CONFIG, read once and frozen."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "PENSTOCK_CONFIG"
ASSETS_FILE = "assets.json"
MICRO_PER_HOUR_MAX = 10**15


class Misconfigured(Exception):
    """The configuration is missing or wrong; the message names the file and the setting."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Asset:
    """Something that costs money each hour, in millionths of the currency unit."""

    name: str
    micro_per_hour: int

    def __post_init__(self) -> None:
        if not self.name:
            raise Misconfigured("asset: a name is required")
        if isinstance(self.micro_per_hour, bool) or not isinstance(self.micro_per_hour, int):
            raise Misconfigured(f"asset {self.name}: micro_per_hour: a whole number required")
        if not 0 <= self.micro_per_hour <= MICRO_PER_HOUR_MAX:
            raise Misconfigured(
                f"asset {self.name}: micro_per_hour {self.micro_per_hour}; 0 to {MICRO_PER_HOUR_MAX} required"
            )


DEFAULT_ASSETS = (Asset(name="cluster", micro_per_hour=250_000),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What the pipeline needs of the service's file. Times in seconds."""

    bootstrap: tuple[str, ...]
    api_key_file: Path
    """Of the service account of the system tenant, which alone may read `__usage`."""
    datasets: Path
    state_directory: Path
    """Folder of the heartbeat: that of the configuration."""
    master: str = "local[2]"
    interval_s: float = 20.0

    @property
    def wake_file(self) -> Path:
        """Touching this file starts a round at once."""
        return self.datasets / "wake"


def read(file: Path) -> Configuration:
    """The configuration in `file`. Settings of other parts of the service are not looked at. Raises `Misconfigured`."""
    values = _object(file)
    try:
        bootstrap = tuple(str(address) for address in values["brokers"]["bootstrap"])
        configuration = Configuration(
            bootstrap=bootstrap,
            api_key_file=Path(values["usage_key_file"]),
            datasets=Path(values["datasets"]),
            state_directory=file.absolute().parent,
            master=str(values.get("spark", {}).get("master", "local[2]")),
            interval_s=float(values.get("pipeline_interval_s", 20)),
        )
    except KeyError as error:
        raise Misconfigured(f"{file}: {error.args[0]} is missing") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise Misconfigured(f"{file}: {error}") from error
    if not bootstrap:
        raise Misconfigured(f"{file}: brokers.bootstrap: at least one address required")
    if not configuration.interval_s > 0:
        raise Misconfigured(f"{file}: pipeline_interval_s: a number above 0 required")
    return configuration


def from_environment() -> Configuration:
    """The configuration of this process. Raises `Misconfigured`."""
    name = os.environ.get(VARIABLE)
    if not name:
        raise Misconfigured(f"{VARIABLE} is not set: it names the configuration file")
    return read(Path(name))


def read_assets(datasets: Path) -> tuple[Asset, ...]:
    """What `cost_hour` divides among the tenants: `assets.json` beside the data sets, else the default.

    The file holds {"assets": [{"name": ..., "micro_per_hour": ...}]}. Raises `Misconfigured`.
    """
    file = datasets / ASSETS_FILE
    if not file.exists():
        return DEFAULT_ASSETS
    entries = _object(file).get("assets")
    if not isinstance(entries, list):
        raise Misconfigured(f"{file}: assets: a list required")
    try:
        assets = tuple(sorted(Asset(**entry) for entry in entries))
    except TypeError as error:
        raise Misconfigured(f"{file}: {error}") from error
    if len({asset.name for asset in assets}) < len(assets):
        raise Misconfigured(f"{file}: two assets have the same name")
    return assets


def _object(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Misconfigured(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise Misconfigured(f"{file}: not JSON: {error}") from error
    if not isinstance(values, dict):
        raise Misconfigured(f"{file}: an object is required")
    return values
