"""How every process of the service reads its configuration: one JSON file, into one frozen model, once.

A model is a `Settings` struct: a field for each setting, with its type, its default and a docstring for the reference.
What is wrong is refused with a `ConfigurationError` of one form: the file (or the variable of the environment), the
path of the setting, the fact, the demand.

    /etc/penstock.json: brokers.pepper_version: a whole number required, text given
    /etc/penstock.json: brokers.pepper_verson: no such setting; did you mean pepper_version?
"""

import difflib
import os
import re
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from penstock.contract import strict_json
from penstock.contract.errors import ConfigurationError
from penstock.contract.strict_json import NameTwice
from penstock.rules.addresses import split_address

_NEAR = 0.6
"""How alike a misspelt name and the one that is meant must be (difflib's own measure and usual bound)."""
_CALLED = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
"""What a file holds, in words; msgspec's names for it come first."""
_EXPECTED = re.compile(r"Expected `([^`]+)`(?: (>=|>|<=|of length >=) ([0-9.]+))?(?:, got `(\w+)`)?")
_BOUNDS = {">=": "of at least", ">": "above", "<=": "of at most"}
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_PATH = re.compile(r" - at `\$\.?(.*)`$")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of a process, or an object within it. `__post_init__` may raise `Refused`."""


class Secret(str):
    """Text that is not shown where the model is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


class Refused(ValueError):
    """A setting of the model at hand is wrong: its name, what is the case, and what is required."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


def require(holds: bool, name: str, message: str) -> None:
    """Raises `Refused` for the setting `name` unless it holds."""
    if not holds:
        raise Refused(name, message)


Model = TypeVar("Model", bound=Settings)


def read(
    file: Path,
    model: type[Model],
    *,
    given: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    prefix: str = "",
    others: Collection[str] = (),
) -> Model:
    """The settings in `file`, with those that are `given` by the process itself and stand in no file.

    Variables of `environment` that begin with `prefix` stand above the file; those that are no text are JSON. `others`
    are the paths of settings that stand in the same file and are another process's. Raises `ConfigurationError`.
    """
    values, given = object_in(file), given or {}
    from_variables = (
        {} if environment is None else dict(_variables(model, environment, prefix, others, given))
    )
    values |= {name: value for name, (_, value) in from_variables.items()}
    sources = {name: variable for name, (variable, _) in from_variables.items()}
    try:
        values = _without(others, _checked_names(model, values, "", others, given))
        return msgspec.convert(values | dict(given), type=model, dec_hook=_decoded)
    except Refused as refused:
        where, said = refused.name, refused.message
    except msgspec.ValidationError as error:
        where, said = _described(error)
    source = sources.get(where.partition(".")[0].partition("[")[0])
    # A variable names its setting already; a path within it still has to be named.
    path = where if source is None else where.partition(".")[2]
    raise ConfigurationError(": ".join(part for part in (source or str(file), path, said) if part))


def problems(
    file: Path,
    model: type[Model],
    *,
    given: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    prefix: str = "",
    others: Collection[str] = (),
) -> list[ConfigurationError]:
    """What is wrong with each setting, of a file that `read` refuses; what is wrong with several together when each of
    them is right. Empty if `read` takes the file.
    """
    given = given or {}
    try:
        read(file, model, given=given, environment=environment, prefix=prefix, others=others)
        return []
    except ConfigurationError as error:
        first = error
    try:
        values = object_in(file)
        variables = dict(_variables(model, environment or {}, prefix, others, given))
    except ConfigurationError:
        return [first]
    sources = {name: variable for name, (variable, _) in variables.items()}
    values |= {name: value for name, (_, value) in variables.items()}
    fields = {field.name: field for field in msgspec.structs.fields(model) if field.name not in given}
    found = []
    for name in dict.fromkeys([*values, *fields]):
        problem = _problem(model, name, values, others, given, fields.get(name))
        if problem is not None:
            where, said = problem
            path = where if name not in sources else where.removeprefix(name).removeprefix(".")
            parts = (sources.get(name, str(file)), path, said)
            found.append(ConfigurationError(": ".join(part for part in parts if part)))
    return found or [first]


def _problem(
    model: type[Settings],
    name: str,
    values: dict[str, Any],
    others: Collection[str],
    given: Mapping[str, Any],
    field: msgspec.structs.FieldInfo | None,
) -> tuple[str, str] | None:
    """What is wrong with one setting on its own: its path, and what is said of it."""
    if name not in values:
        required = field is not None and field.required
        return (name, "missing; give it a value") if required else None
    try:
        value = _without(others, _checked_names(model, {name: values[name]}, "", others, given))
        if field is not None and name in value:
            msgspec.convert(value[name], type=field.type, dec_hook=_decoded)
    except Refused as refused:
        return refused.name, refused.message
    except msgspec.ValidationError as error:
        where, said = _described(error)
        return f"{name}{'' if not where or where.startswith('[') else '.'}{where}", said
    return None


def host_of(name: str, address: str) -> str:
    """The host of the setting's `host:port`. Raises `Refused`."""
    try:
        return split_address(address)[0]
    except ValueError as error:
        raise Refused(name, str(error)) from None


def nearest(name: str, known: Collection[str]) -> str:
    """What to say of a name that is none of those that are known."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=_NEAR)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"


def paths(model: type[Settings], above: str = "") -> Iterator[tuple[str, msgspec.structs.FieldInfo]]:
    """Every setting of a model, those of objects within it by their path."""
    for field in msgspec.structs.fields(model):
        yield f"{above}{field.name}", field
        for inner in _models(field.type):
            yield from paths(inner, f"{above}{field.name}.")


def object_in(file: Path) -> dict[str, Any]:
    """The JSON object that the file holds. Raises `ConfigurationError`."""
    try:
        values = strict_json.parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from None
    except NameTwice as twice:
        raise ConfigurationError(f"{file}: {twice.name}: it stands there twice; once required") from None
    except ValueError as error:
        raise ConfigurationError(f"{file}: is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ConfigurationError(f"{file}: an object required")
    return values


def _variables(
    model: type[Settings],
    environment: Mapping[str, str],
    prefix: str,
    others: Collection[str],
    given: Mapping[str, Any],
) -> Iterator[tuple[str, tuple[str, Any]]]:
    """For each setting in the environment its variable and its value. Those of `others` are passed over."""
    fields = msgspec.structs.fields(model)
    kinds = {field.name: field.type for field in fields if field.name not in given}
    passed_over = {f"{prefix}{other.upper()}" for other in others if "." not in other} - {
        f"{prefix}{name.upper()}" for name in kinds
    }
    for variable, text in environment.items():
        if not variable.startswith(prefix) or variable in passed_over:
            continue
        name = variable.removeprefix(prefix).lower()
        variables = [f"{prefix}{known.upper()}" for known in kinds]
        # In capitals alone: else two variables could be one setting.
        if variable not in variables:
            near = nearest(f"{prefix}{name.upper()}", {*variables, *passed_over})
            raise ConfigurationError(f"{variable}: no such setting; {near}")
        is_text = _takes_text(kinds[name]) and not (_models(kinds[name]) and text.startswith("{"))
        try:
            yield name, (variable, text if is_text else strict_json.parse(text))
        except NameTwice as twice:
            raise ConfigurationError(
                f"{variable}: {twice.name}: it stands there twice; once required"
            ) from None
        except ValueError:
            raise ConfigurationError(
                f"{variable}: is not JSON, as numbers, lists and objects are there"
            ) from None


def _checked_names(
    model: type[Settings],
    values: dict[str, Any],
    path: str,
    others: Collection[str],
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """The values, of which every name is known. Raises `Refused`."""
    fields = {field.name: field for field in msgspec.structs.fields(model) if field.name not in given}
    config = model.__struct_config__
    known = {*fields, *([config.tag_field] if config.tag_field else [])}
    beside = {other.removeprefix(path) for other in others if other.rpartition(".")[0] == path.rstrip(".")}
    if config.tag_field and config.tag_field not in values:
        raise Refused(f"{path}{config.tag_field}", f"missing; {config.tag!r} required")
    for name, value in values.items():
        here = f"{path}{name}"
        if name not in known and here not in others:
            raise Refused(here, f"no such setting; {nearest(name, known | beside)}")
        if name == config.tag_field and value != config.tag:
            raise Refused(here, f"{config.tag!r} required, {value!r} given")
        if isinstance(value, dict) and name in fields:
            for inner in _models(fields[name].type):
                _checked_names(inner, value, f"{here}.", others, {})
    return values


def _without(others: Collection[str], values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """The values that are this process's."""
    return {
        name: _without(others, value, f"{path}{name}.") if isinstance(value, dict) else value
        for name, value in values.items()
        if f"{path}{name}" not in others
    }


def _models(kind: Any) -> list[type[Settings]]:
    """The models that a type allows."""
    if isinstance(kind, type) and issubclass(kind, Settings):
        return [kind]
    return [model for argument in _alternatives(kind) for model in _models(argument)]


def _takes_text(kind: Any) -> bool:
    if isinstance(kind, type):
        return issubclass(kind, str | Path)
    return any(_takes_text(argument) for argument in _alternatives(kind))


def _alternatives(kind: Any) -> tuple[Any, ...]:
    """What a union is made of, and what an annotated type is."""
    if typing.get_origin(kind) is typing.Annotated:
        return typing.get_args(kind)[:1]
    return typing.get_args(kind) if typing.get_origin(kind) in (types.UnionType, typing.Union) else ()


def _decoded(kind: type[Any], value: Any) -> Any:
    """A value of a type that JSON does not know."""
    if not isinstance(value, str) or not value:
        wanted = "the name of a file or folder" if kind is Path else "text"
        raise ValueError(f"{wanted} required, {_given(value)} given")
    if kind is Path and not _can_be_a_path(value):
        raise ValueError(f"no file can have the name {value!a}")
    return kind(value)


def _can_be_a_path(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _given(value: Any) -> str:
    match value:
        case None:
            return "null"
        case "":
            return "nothing"
        case bool():
            return "true or false"
        case str():
            return "text"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case dict():
            return "an object"
        case _:
            return "a list"


def _described(error: msgspec.ValidationError) -> tuple[str, str]:
    """Which setting it is, and what is wrong with it."""
    text, path = str(error), ""
    if found := _PATH.search(text):
        text, path = text[: found.start()], found.group(1)
    if isinstance(error.__cause__, Refused):
        return ".".join(part for part in (path, error.__cause__.name) if part), error.__cause__.message
    if missing := _MISSING.fullmatch(text):
        return ".".join(part for part in (path, missing.group(1)) if part), "missing; give it a value"
    if expected := _EXPECTED.fullmatch(text):
        kinds, bound, number, got = expected.groups()
        wanted = " or ".join(_CALLED.get(kind, kind) for kind in kinds.split(" | "))
        if bound in _BOUNDS:
            wanted = f"{wanted} {_BOUNDS[bound]} {number.removesuffix('.0')}"
        elif bound is not None:
            wanted = "text that is not empty" if kinds == "str" else f"a list of at least {number}"
        return path, f"{wanted} required" + (f", {_CALLED.get(got, got)} given" if got else "")
    return path, text
