"""REST of a described resource: what its operations take and answer, and what they require.

A view's methods act. What they are called, who may call them and how they are documented, the description says.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from control_plane.api import shapes
from control_plane.api.bounds import within_bounds
from control_plane.rest.views import CallerView
from penstock.contract.invariant import invariant
from penstock.contract.resources.description import Field, Given, Kind, Method, Resource, Verb
from penstock.contract.resources.wording import meaning, meaning_in_answers, meaning_when_made
from tenants.roles import Permission

_Shape = type[serializers.Serializer[Any]]
_ViewT = TypeVar("_ViewT", bound=CallerView)
_HTTP = {
    Method.LIST: "GET",
    Method.CREATE: "POST",
    Method.READ: "GET",
    Method.CHANGE: "PATCH",
    Method.SET: "PUT",
    Method.REMOVE: "DELETE",
}
_TAKEN_WHEN_MADE = (Given.ONCE, Given.ALWAYS)
_TAKEN_WITH_A_CHANGE = (Given.ALWAYS, Given.LATER)


# -- what operations take and answer ----------------------------------------------------------------------


def made_of(resource: Resource, name: str, about: str = "") -> type[shapes.StrictSerializer]:
    """What a new object takes. `name` is for the OpenAPI document, as are those of the next two."""
    fields = {
        field.name: _taken(
            field,
            meaning_when_made(field),
            **({"required": True} if field.default is None else {"default": _plain(field.default)}),
        )
        for field in resource.fields
        if field.given in _TAKEN_WHEN_MADE
    }
    return type(name, (shapes.StrictSerializer,), {**fields, "__doc__": about or None})


def change_of(fields: tuple[Field, ...], name: str) -> type[shapes.StrictSerializer]:
    """What a change takes: any of the fields that can be changed."""
    taken = {
        field.name: _taken(field, meaning(field), required=False)
        for field in fields
        if field.given in _TAKEN_WITH_A_CHANGE
    }
    return type(name, (shapes.StrictSerializer,), taken)


def shape_of(
    fields: tuple[Field, ...],
    name: str,
    *bases: _Shape,
    about: str = "",
    sources: Mapping[str, str] | None = None,
) -> _Shape:
    """What an answer shows of an object. `sources`: where the object has a field under another name."""
    kinds = {field.name: _shown(field, (sources or {}).get(field.name)) for field in fields}
    return type(name, bases or (serializers.Serializer,), {**kinds, "__doc__": about or None})


def taken(request: Request, shape: type[shapes.StrictSerializer]) -> dict[str, Any]:
    """The request's body. Raises the framework's `ValidationError`, which names each wrong field."""
    body = shape(data=request.data)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)


def _taken(field: Field, help_text: str, **options: Any) -> serializers.Field[Any, Any, Any, Any]:
    options["help_text"] = help_text
    bounds = within_bounds(field)
    if field.kind is not Kind.WHOLES:
        options["validators"] = bounds
    if field.choices:
        return serializers.ChoiceField(choices=[choice.value for choice in field.choices], **options)
    match field.kind:
        case Kind.TEXT:
            return serializers.CharField(
                max_length=field.length_max, trim_whitespace=False, allow_blank=field.blank, **options
            )
        case Kind.WHOLE:
            return serializers.IntegerField(**options)
        case Kind.FLAG:
            return serializers.BooleanField(**options)
        case Kind.MOMENT:
            return serializers.DateTimeField(**options)
        case Kind.TEXTS:
            return serializers.ListField(child=serializers.CharField(), max_length=field.items_max, **options)
        case Kind.WHOLES:
            return serializers.ListField(
                child=serializers.IntegerField(validators=bounds), max_length=field.items_max, **options
            )
        case Kind.MAP:
            return serializers.DictField(child=serializers.CharField(max_length=field.length_max), **options)


def _shown(field: Field, source: str | None) -> serializers.Field[Any, Any, Any, Any]:
    options: dict[str, Any] = {"help_text": meaning_in_answers(field)}
    if source is not None:
        options["source"] = source
    if field.null:
        options["allow_null"] = True
    if field.made:
        options["read_only"] = True
    if field.choices:
        choices = [choice.value for choice in field.choices]
        return serializers.ChoiceField(choices=choices, allow_blank=field.blank, **options)
    match field.kind:
        case Kind.TEXT:
            return serializers.CharField(**options)
        case Kind.WHOLE:
            return serializers.IntegerField(**options)
        case Kind.FLAG:
            return serializers.BooleanField(**options)
        case Kind.MOMENT:
            return shapes.Moment(**options)
        case Kind.TEXTS:
            return serializers.ListField(child=serializers.CharField(), **options)
        case Kind.WHOLES:
            return serializers.ListField(child=serializers.IntegerField(), **options)
        case Kind.MAP:
            return serializers.DictField(child=serializers.CharField(), **options)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


# -- operations -------------------------------------------------------------------------------------------


def operations(
    resource: Resource,
    *methods: Method,
    shape: _Shape,
    takes: _Shape | None = None,
    changed: _Shape | None = None,
) -> Callable[[type[_ViewT]], type[_ViewT]]:
    """The view's methods are these operations of the resource.

    `takes` is the body of the one that takes one, `changed` the answer to a change where it is another than `shape`.
    """

    def decorate(view: type[_ViewT]) -> type[_ViewT]:
        verbs = [verb for verb in resource.verbs if verb.method in methods]
        invariant(len(verbs) == len(methods), f"{resource.name}: each of {methods} is described")
        for verb in verbs:
            act = getattr(view, _HTTP[verb.method].lower())
            act.__doc__ = verb.about
            extend_schema(
                operation_id=verb.operation,
                parameters=_parameters(resource, verb),
                responses=_answers(resource, verb, shape, changed or shape),
                request=takes,
            )(act)
        view.permissions = {_HTTP[verb.method]: Permission(verb.permission) for verb in verbs}  # type: ignore[attr-defined]
        view.conditional = frozenset(_HTTP[verb.method] for verb in verbs if verb.conditional)
        view.dry_run = frozenset(_HTTP[verb.method] for verb in verbs if verb.dry_run)
        return view

    return decorate


def _parameters(resource: Resource, verb: Verb) -> list[Any]:
    has = {
        "tenant": (resource.of_tenant, [shapes.TENANT]),
        "paging": (verb.method is Method.LIST, shapes.PAGING),
        "idempotency": (verb.method is Method.CREATE, [shapes.IDEMPOTENCY]),
        "condition": (verb.conditional, [shapes.IF_MATCH]),
        "tag": (resource.tagged and verb.method not in (Method.LIST, Method.REMOVE), [shapes.ETAG]),
    }
    return [parameter for there, parameters in has.values() if there for parameter in parameters]


def _answers(resource: Resource, verb: Verb, shape: _Shape, changed: _Shape) -> dict[Any, Any]:
    problems = shapes.problems(*verb.refuses)
    match verb.method:
        case Method.LIST:
            name = shape.__name__.removesuffix("Shape")
            return {200: shapes.listed(name, shape(many=True)), **problems}
        case Method.READ:
            return {200: shape, **problems}
        case Method.REMOVE if not resource.stays:
            return {204: None, **problems}
    later = {202: changed} if resource.delivered else {}
    return {201 if verb.method is Method.CREATE else 200: changed, **later, **problems}
