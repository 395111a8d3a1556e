"""A planted bug replaces one named function of the product while it is planted, and nothing else."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.simulation.finders import Finder

_OURS = ("penstock", "data_plane", "control_plane", "tests")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """One decision of the product replaced by a wrong one, and who finds it."""

    name: str
    rule: str
    """The rule that the decision keeps."""
    target: str
    """Import path of what is replaced, `module:function` or `module:Class.method`."""
    wrong: Callable[[Any], Any]
    """The right one -> the wrong one."""
    finders: tuple[Finder, ...]
    """Each must find it by itself. The first is the cheapest."""


def located(target: str) -> tuple[Any, str]:
    """The module or class that holds `target`, and its name there."""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    if name not in vars(owner):
        raise LookupError(f"{target}: {owner!r} has no {name}")
    return owner, name


@contextmanager
def planted(target: str, wrong: Callable[[Any], Any]) -> Iterator[None]:
    """Replace `target`, also in modules of ours that imported it by name; put the right one back at the end."""
    owner, name = located(target)
    right = vars(owner)[name]
    replacement = wrong(right)
    places = [(owner, name), *_imported(right)]
    for place, known_as in places:
        setattr(place, known_as, replacement)
    try:
        yield
    finally:
        for place, known_as in places:
            setattr(place, known_as, right)


def _imported(right: object) -> list[tuple[Any, str]]:
    """Modules that know the function by a name of their own."""
    return [
        (module, known_as)
        for loaded, module in sorted(sys.modules.items())
        if loaded.partition(".")[0] in _OURS
        for known_as, value in list(vars(module).items())
        if value is right
    ]
