"""The page of the REST interface, from its OpenAPI document."""

import os
import shutil
import tempfile
from atexit import register
from pathlib import Path
from typing import Any

from docs.reference.markdown import code, table
from docs.reference.markdown import page as whole_page

_METHODS = ("get", "post", "patch", "put", "delete")
_PROBLEM = "Problem"


def set_up_django() -> None:
    """With a configuration of no service: pages are read from the code, nothing is asked."""
    from tests.control_plane.configuration import write

    folder = Path(tempfile.mkdtemp(prefix="penstock-reference-"))
    register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["PENSTOCK_CONFIG"] = str(write(folder, f"sqlite:///{folder}/control.sqlite"))
    os.environ["DJANGO_SETTINGS_MODULE"] = "control_plane.settings"
    import django

    django.setup()


def page() -> str:
    """Every address with what it takes and answers, and the shapes. Django has to be set up."""
    from drf_spectacular.generators import SchemaGenerator

    document: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    shapes: dict[str, Any] = document["components"]["schemas"]
    parts = [
        "`Authorization: Bearer` takes an API key, a session's token or an operator's token. Lists answer "
        '`{"items", "next"}`; '
        "`?cursor=` takes `next` until that is null. A refusal is a [problem document](#problem) whose `code` is a "
        "name of the [error table](errors.md). The [control plane's page](../control-plane.md#rest) has the rules for "
        "all calls. This page is generated from `/v1/openapi.json` of a service.",
    ]
    for path, operations in sorted(document["paths"].items()):
        for method in _METHODS:
            if method in operations:
                parts.append(_operation(f"{method.upper()} {path}", operations[method]))
    parts.append("## Shapes")
    parts += [_shape(name, shape) for name, shape in sorted(shapes.items())]
    return whole_page("REST", "the service's OpenAPI document", *parts)


def _operation(title: str, operation: dict[str, Any]) -> str:
    parts = [f"## {title}", str(operation.get("description", ""))]
    parameters = operation.get("parameters", [])
    if parameters:
        rows = [
            (code(given["name"]), given["in"], _type(given["schema"]), given.get("description", ""))
            for given in parameters
        ]
        parts.append(table(["parameter", "in", "type", "meaning"], rows))
    body = operation.get("requestBody")
    if body is not None:
        parts.append(f"Takes {_type(_schema(body))}.")
    answers, refusals = [], []
    for status, answer in operation["responses"].items():
        schema = _schema(answer)
        if int(status) >= 400:
            refusals.append(status)
        else:
            answers.append(f"{status}" + (f" with {_type(schema)}" if schema else ""))
    parts.append(f"Answers {', '.join(answers)}; refuses with {', '.join(refusals)}.")
    return "\n\n".join(part for part in parts if part)


def _schema(holder: dict[str, Any]) -> dict[str, Any]:
    for content in holder.get("content", {}).values():
        found: dict[str, Any] = content.get("schema", {})
        return found
    return {}


def _shape(name: str, shape: dict[str, Any]) -> str:
    parts = [f"### {name}", str(shape.get("description", ""))]
    if "properties" in shape:
        required = shape.get("required", [])
        rows = [
            (code(field), _type(schema), "yes" if field in required else "", _meaning(schema))
            for field, schema in shape["properties"].items()
        ]
        parts.append(table(["field", "type", "always", "meaning"], rows))
    elif "enum" in shape:
        parts.append("One of " + ", ".join(code(value) for value in shape["enum"]) + ".")
    return "\n\n".join(part for part in parts if part)


def _meaning(schema: dict[str, Any]) -> str:
    bounds = [
        f"{word} {schema[key]}"
        for key, word in (
            ("minimum", "from"),
            ("maximum", "to"),
            ("minLength", "at least"),
            ("maxLength", "at most"),
        )
        if key in schema
    ]
    return " ".join([str(schema.get("description", "")), ", ".join(bounds)]).strip()


def _type(schema: dict[str, Any]) -> str:
    """A type in a word or two, with a link where it is a shape of its own."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for joined in ("allOf", "oneOf", "anyOf"):
        if joined in schema:
            return " or ".join(_type(part) for part in schema[joined])
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(_type({**schema, "type": part}) for part in kind)
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_type(schema['additionalProperties'])}"
    if "enum" in schema:
        return ", ".join(code(value) for value in schema["enum"])
    return f"{kind} ({schema['format']})" if "format" in schema and kind == "string" else str(kind)
