"""`penstock` and `penstock.asyncio` offer the same: names, arguments, defaults, documentation."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

import penstock
import penstock.asyncio
from penstock.contract import errors
from penstock.producer_arguments import ProducerArguments

SHARED_CLASSES = ("Client", "Producer", "Consumer", "Delivery")
_RENAMED = {"__enter__": "__aenter__", "__exit__": "__aexit__", "__iter__": "__aiter__"}
_AS_FUTURES_HAVE = {("Delivery", "result"), ("Delivery", "exception")}
"""A future of threads waits there, for a `timeout`; one of asyncio is awaited, and these tell what is there."""
_ASYNC_ONLY = {("Delivery", "__await__"), ("Client", "over")}


def _offered(cls: type) -> dict[str, object]:
    """What a class offers its users, dunder methods included that the SDK itself defines."""
    found: dict[str, object] = {}
    for name, member in inspect.getmembers(cls):
        own = name in vars(cls) or any(
            name in vars(base) for base in cls.__mro__[1:-1] if base.__module__.startswith("penstock")
        )
        if own and (not name.startswith("_") or name in {*_RENAMED, *_RENAMED.values(), "__await__"}):
            found[name] = member
    return found


def test_both_surfaces_export_the_same_names() -> None:
    assert penstock.__all__ == penstock.asyncio.__all__
    for name in penstock.__all__:
        blocking, awaited = getattr(penstock, name), getattr(penstock.asyncio, name)
        assert (blocking is awaited) == (name not in SHARED_CLASSES), name


@pytest.mark.parametrize("name", SHARED_CLASSES)
def test_both_surfaces_offer_the_same_methods(name: str) -> None:
    blocking = {_RENAMED.get(method, method) for method in _offered(getattr(penstock, name))}
    awaited = set(_offered(getattr(penstock.asyncio, name)))
    assert awaited - blocking == {method for cls, method in _ASYNC_ONLY if cls == name}
    assert blocking - awaited == set()


@pytest.mark.parametrize("name", SHARED_CLASSES)
def test_methods_take_the_same_arguments_with_the_same_defaults(name: str) -> None:
    blocking, awaited = _offered(getattr(penstock, name)), _offered(getattr(penstock.asyncio, name))
    for method, member in blocking.items():
        if not callable(member) or (name, method) in _AS_FUTURES_HAVE:
            continue
        other = awaited[_RENAMED.get(method, method)]
        assert callable(other)
        ours, theirs = inspect.signature(member).parameters, inspect.signature(other).parameters
        assert [(p.name, p.kind, p.default) for p in ours.values()] == [
            (p.name, p.kind, p.default) for p in theirs.values()
        ], f"{name}.{method}"
    constructor = inspect.signature(getattr(penstock, name).__init__).parameters
    assert list(constructor) == list(inspect.signature(getattr(penstock.asyncio, name).__init__).parameters)


@pytest.mark.parametrize("surface", [penstock, penstock.asyncio], ids=["blocking", "asyncio"])
def test_what_a_checker_of_types_knows_of_a_producers_arguments_is_what_it_takes(surface: Any) -> None:
    taken = {
        name: parameter.annotation
        for name, parameter in inspect.signature(surface.Client.producer).parameters.items()
        if name not in ("self", "value_serializer", "key_serializer")
    }
    known = {name: form.__forward_arg__ for name, form in ProducerArguments.__annotations__.items()}
    assert known == taken


@pytest.mark.parametrize("name", SHARED_CLASSES)
@pytest.mark.parametrize("surface", [penstock, penstock.asyncio], ids=["blocking", "asyncio"])
def test_everything_public_is_documented(surface: object, name: str) -> None:
    cls = getattr(surface, name)
    assert inspect.getdoc(cls)
    bare = [
        method
        for method, member in _offered(cls).items()
        if not method.startswith("__") and not inspect.getdoc(member)
    ]
    assert bare == []


def test_every_error_of_the_table_is_exported_under_one_root() -> None:
    classes = errors.PenstockError.__subclasses__()
    tree = {cls.__name__ for cls in classes if cls.__module__.startswith("penstock.")}
    assert tree <= set(penstock.__all__)
    for name in tree:
        assert issubclass(getattr(penstock, name), penstock.PenstockError)


def test_a_name_that_is_not_offered_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = penstock.nothing
    with pytest.raises(AttributeError, match="nothing"):
        _ = penstock.asyncio.nothing


def test_importing_the_package_brings_neither_grpc_nor_protobuf() -> None:
    code = "import penstock, sys; print(sorted({'grpc', 'google.protobuf', 'asyncio', 'threading'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[]", "['threading']")
