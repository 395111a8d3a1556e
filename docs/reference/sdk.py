"""The page of the SDK: what `penstock` offers, from its signatures and docstrings."""

import inspect
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import penstock
import penstock.serializers
from docs.reference.markdown import code, table
from docs.reference.markdown import page as whole_page
from penstock.admin.blocking import Admin
from penstock.contract.errors import PenstockError


def page() -> str:
    """Classes with their public methods, in the order of `penstock.__all__`."""
    classes: list[tuple[str, type]] = [("Client.admin", Admin)]
    for name in penstock.__all__:
        found = getattr(penstock, name)
        if not issubclass(found, PenstockError | Enum):
            classes.append((name, found))
    classes.sort(key=lambda entry: entry[0] != "Client" and entry[0] != "Client.admin")
    classes.sort(key=lambda entry: entry[0] != "Client")
    for name in ("Serializer", "Avro", "Protobuf"):
        classes.append((f"serializers.{name}", getattr(penstock.serializers, name)))
    parts = [
        "The same names, to be awaited, are in `penstock.asyncio`. The [guides](../README.md) tell how they "
        "are used; what is "
        "raised stands in the [error table](errors.md)."
    ]
    for name, found in classes:
        parts += _described(name, found)
    for name in ("TEXT", "JSON"):
        parts += [f"## serializers.{name}", inspect.getdoc(getattr(penstock.serializers, name)) or ""]
    return whole_page("Python SDK", "signatures and docstrings of `penstock`", *parts)


def _described(name: str, found: type) -> list[str]:
    parts = [f"## {name}", inspect.getdoc(found) or ""]
    if is_dataclass(found):
        rows = [(code(field.name), code(_type(field.type))) for field in fields(found)]
        parts.append(table(["field", "type"], rows))
    for method, value in vars(found).items():
        if method.startswith("_"):
            continue
        if isinstance(value, property):
            parts += [f"### {name}.{method}", inspect.getdoc(value) or ""]
        elif isinstance(value, classmethod | staticmethod) or inspect.isfunction(value):
            parts += [f"### {name}.{method}", _signature(f"{name}.{method}", getattr(found, method))]
            parts.append(inspect.getdoc(value) or "")
    return parts


def _signature(name: str, function: Any) -> str:
    """As one would call it, an argument a line when it would be long."""
    signature = inspect.signature(function)
    taken = [item for item in signature.parameters.values() if item.name != "self"]
    shown = [str(item.replace(annotation=item.empty)) for item in taken]
    first_named = next((i for i, item in enumerate(taken) if item.kind is item.KEYWORD_ONLY), None)
    if first_named is not None and not any(item.kind is item.VAR_POSITIONAL for item in taken):
        shown.insert(first_named, "*")
    line = f"{name}({', '.join(shown)})"
    answer = (
        ""
        if signature.return_annotation in (signature.empty, "None", None)
        else _type(signature.return_annotation)
    )
    if answer:
        line += f" -> {answer}"
    if len(line) > 110:
        inner = "".join(f"    {item},\n" for item in shown)
        line = f"{name}(\n{inner})" + (f" -> {answer}" if answer else "")
    return f"```text\n{line}\n```"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
