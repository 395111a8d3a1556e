"""Reads a declarative file: YAML or JSON text becomes checked values, and each error names its line.

Aliases, anchors and tags are refused, so no value is larger than its text.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

import yaml

from penstock.admin.declaration import (
    Declared,
    DeclaredAccountLimits,
    DeclaredAcl,
    DeclaredKey,
    DeclaredQuotas,
    DeclaredScope,
    DeclaredTopic,
)
from penstock.contract import limits
from penstock.contract.errors import InvalidRequest, PenstockError
from penstock.contract.resources import BUDGETS, WEBHOOKS
from penstock.contract.resources.checks import check
from penstock.contract.resources.description import Field, Given, Kind, Resource
from penstock.contract.resources.webhooks import EVENTS_USUAL
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.access import ALLOW, DENY, TENANT, Acl, Scope, check_can_exist, check_scope
from penstock.rules.budgets import MONTH, NOTIFY, SLOW
from penstock.rules.names import check_printable_name, check_topic_name
from penstock.rules.principal_limits import PRINCIPAL_LIMIT_NAMES

FILE_BYTES_MAX: Final = 10_000_000
"""Ten times what 10,000 topics need."""
_DEPTH_MAX: Final = 16
_NAME_LENGTH_MAX: Final = 200
"""As REST takes names of service accounts and groups."""
_WHOLE_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_T = TypeVar("_T")
_PRINCIPAL_KINDS: Final = ("service_account", "person", "group")
_SETTINGS: Final = tuple(field.name for field in fields(TopicSettings))
_TOGETHER: Final = ("replication", "min_insync_replicas")
"""Each is bounded by the other, and by the service: only that can check them."""
_ENUMS: Final = ("durability", "timestamp_type", "retention_basis")
_KINDS: Final = (
    *("quotas", "service_accounts", "principal_groups", "topics", "access", "acls", "keys"),
    *("webhooks", "budgets", "account_limits"),
)
_EMPTY: Final = "the file is empty; it has at least one of topics, service_accounts, acls …"
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class _Value:
    line: int
    value: Any


def declared_of(text: bytes, where: str) -> Declared:
    """`where` is the file's name for messages. Raises `InvalidRequest`."""
    if len(text) > FILE_BYTES_MAX:
        raise InvalidRequest(f"{where}: the file is over {FILE_BYTES_MAX} bytes; divide it")
    return _Reader(where).read(text)


def _line(parsed: yaml.Event | yaml.Node) -> int:
    return 1 if parsed.start_mark is None else int(parsed.start_mark.line) + 1


class _Reader:
    def __init__(self, where: str) -> None:
        self._where = where

    def read(self, text: bytes) -> Declared:
        try:
            self._check_events(text)
            node = yaml.compose(text, Loader=_LOADER)
            if node is None:
                self._refuse(1, _EMPTY)
            whole = self._fields(self._plain(node), _KINDS)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = 1 if mark is None else mark.line + 1
            self._refuse(line, f"this is no YAML: {getattr(error, 'problem', None) or error}")
        if not whole:
            self._refuse(1, _EMPTY)
        accounts = self._unique(whole, "service_accounts", self._account, lambda one: one)
        groups = self._unique(whole, "principal_groups", self._group, lambda one: one[0])
        default = None
        if "access" in whole:
            access = self._fields(whole["access"], ("default",), required=("default",))
            default = self._text("default", access["default"])
            if default not in (ALLOW, DENY):
                self._refuse(access["default"].line, f"default: {default[:32]!r} is neither allow nor deny")
        return Declared(
            quotas=self._quotas(whole["quotas"]) if "quotas" in whole else None,
            service_accounts=accounts,
            principal_groups=None if groups is None else dict(groups),
            topics=self._unique(whole, "topics", self._topic, lambda one: one.name),
            acls=self._unique(whole, "acls", self._acl, lambda one: one),
            default=default,
            keys=self._unique(whole, "keys", self._key, lambda one: (one.service_account, one.name)),
            webhooks=self._unique(whole, "webhooks", self._webhook, lambda webhook: webhook["name"]),
            budgets=self._unique(whole, "budgets", self._budget, lambda budget: budget["name"]),
            account_limits=(
                self._account_limits(whole["account_limits"]) if "account_limits" in whole else None
            ),
        )

    # -- text ------------------------------------------------------------------------------------------------

    def _check_events(self, text: bytes) -> None:
        depth = documents = 0
        for event in yaml.parse(text, Loader=_LOADER):
            line = _line(event)
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                self._refuse(line, "anchors and aliases are not taken; write the value out")
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse(line, "a second document begins; one file holds one document")
            elif isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _DEPTH_MAX:
                    self._refuse(line, f"nested deeper than {_DEPTH_MAX} levels")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1

    def _plain(self, node: yaml.Node) -> _Value:
        line = _line(node)
        if isinstance(node, yaml.SequenceNode):
            return _Value(line, [self._plain(one) for one in node.value])
        if isinstance(node, yaml.MappingNode):
            found: dict[str, _Value] = {}
            lines: dict[str, int] = {}
            for key_node, value_node in node.value:
                key = self._plain(key_node)
                name = self._text("a field's name", key)
                if name in found:
                    self._refuse(key.line, f"{name[:64]!r} stands twice, first on line {lines[name]}")
                found[name], lines[name] = self._plain(value_node), key.line
            return _Value(line, found)
        if not isinstance(node, yaml.ScalarNode):
            self._refuse(line, "this kind of value is not taken")
        tag = node.tag.removeprefix("tag:yaml.org,2002:")
        try:
            if tag == "bool":
                return _Value(line, yaml.constructor.SafeConstructor().construct_yaml_bool(node))
        except KeyError:
            self._refuse(line, f"{node.value[:32]!r} is not a value of the kind {tag}")
        if tag == "int":
            # YAML 1.1 reads 010 as 8 and 1:30 as 90, which is never meant here.
            if not _WHOLE_NUMBER.fullmatch(node.value):
                self._refuse(
                    line, f"{node.value[:32]!r}: whole numbers are written in decimal digits, 18 at most"
                )
            return _Value(line, int(node.value))
        if tag == "null":
            return _Value(line, None)
        if tag in ("float", "timestamp"):
            return _Value(line, 0.0)  # no field takes one: refused with the field's name
        if tag != "str":
            self._refuse(line, f"the tag {node.tag[:64]} is not taken")
        return _Value(line, node.value)

    # -- values ----------------------------------------------------------------------------------------------

    def _refuse(self, line: int, why: str) -> NoReturn:
        raise InvalidRequest(f"{self._where}:{line}: {why}")

    def _fields(
        self,
        given: _Value,
        known: tuple[str, ...],
        required: tuple[str, ...] = (),
        *,
        may_be_null: bool = False,
    ) -> dict[str, _Value]:
        if not isinstance(given.value, dict):
            self._refuse(given.line, f"fields required, as {known[0]}: …")
        for name, one in given.value.items():
            if name not in known:
                near = difflib.get_close_matches(name[:64], known, 1)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
                self._refuse(one.line, f"{name[:64]!r} is no known field; {hint}")
            if one.value is None and not may_be_null:
                self._refuse(
                    one.line, f"{name}: null is taken of a topic's settings alone; leave the field out"
                )
        for name in required:
            if name not in given.value:
                self._refuse(given.line, f"{name} is missing")
        found: dict[str, _Value] = given.value
        return found

    def _list(self, field: str, given: _Value) -> list[_Value]:
        if not isinstance(given.value, list):
            self._refuse(given.line, f"{field}: a list required")
        return given.value

    def _text(self, field: str, given: _Value) -> str:
        if not isinstance(given.value, str):
            self._refuse(given.line, f"{field}: text required; put it in quotes")
        return given.value

    def _texts(self, field: str, given: _Value | None) -> tuple[str, ...]:
        rows = [] if given is None else self._list(field, given)
        return tuple(sorted({self._text(field, one) for one in rows}))

    def _unique(
        self,
        whole: Mapping[str, _Value],
        field: str,
        read: Callable[[_Value], _T],
        key: Callable[[_T], object],
    ) -> tuple[_T, ...] | None:
        if field not in whole:
            return None
        lines: dict[object, int] = {}
        found: list[_T] = []
        for given in self._list(field, whole[field]):
            one = read(given)
            if key(one) in lines:
                self._refuse(given.line, f"{field}: the same stands on line {lines[key(one)]} already")
            lines[key(one)] = given.line
            found.append(one)
        return tuple(found)

    def _checked(self, line: int, check: Callable[[], object]) -> None:
        try:
            check()
        except PenstockError as error:
            self._refuse(line, error.message)

    def _name(self, given: _Value) -> str:
        name = self._text("name", given)
        self._checked(given.line, lambda: check_printable_name("name", name, _NAME_LENGTH_MAX))
        return name

    def _account(self, given: _Value) -> str:
        return self._name(self._fields(given, ("name",), required=("name",))["name"])

    def _quotas(self, given: _Value) -> DeclaredQuotas:
        if not isinstance(given.value, dict):
            self._refuse(given.line, "quotas: fields required, as topics_max: 100")
        rest: dict[str, _Value] = dict(given.value)
        plan, version = rest.pop("plan", None), rest.pop("plan_version", None)
        if version is not None and plan is None:
            self._refuse(version.line, "plan_version: name the plan too")
        limits_wanted: dict[str, int] = {}
        for name, one in rest.items():
            limits_wanted[name] = self._number(name[:64], one)
            if limits_wanted[name] < 0:
                self._refuse(one.line, f"{name[:64]}: {limits_wanted[name]} is below 0, which means no limit")
        if plan is None and not limits_wanted:
            self._refuse(given.line, "quotas: a plan or a limit required, as topics_max: 100")
        return DeclaredQuotas(
            plan="" if plan is None else self._filled("plan", plan),
            plan_version=None if version is None else self._number("plan_version", version),
            limits=limits_wanted,
        )

    def _account_limits(self, given: _Value) -> DeclaredAccountLimits:
        named = self._fields(given, ("default", "accounts"))
        if not named:
            self._refuse(given.line, "account_limits: default, accounts or both required")
        accounts = self._unique(named, "accounts", self._limits_of_account, lambda one: one[0])
        default = None
        if "default" in named:
            default = self._rates(named["default"], self._fields(named["default"], PRINCIPAL_LIMIT_NAMES))
        return DeclaredAccountLimits(default=default, accounts=dict(accounts or ()))

    def _limits_of_account(self, given: _Value) -> tuple[str, Mapping[str, int]]:
        named = self._fields(
            given, ("service_account", *PRINCIPAL_LIMIT_NAMES), required=("service_account",)
        )
        account = self._filled("service_account", named.pop("service_account"))
        return account, self._rates(given, named)

    def _rates(self, given: _Value, named: Mapping[str, _Value]) -> Mapping[str, int]:
        if not named:
            self._refuse(given.line, f"at least one of {', '.join(PRINCIPAL_LIMIT_NAMES)} required")
        found = {name: self._number(name, one) for name, one in named.items()}
        for name, value in found.items():
            if value < 0:
                self._refuse(
                    named[name].line, f"{name}: {value} is below 0, which means only the tenant's limit"
                )
        return found

    def _filled(self, field: str, given: _Value) -> str:
        text = self._text(field, given)
        self._checked(given.line, lambda: check_printable_name(field, text, _NAME_LENGTH_MAX))
        return text

    def _key(self, given: _Value) -> DeclaredKey:
        named = self._fields(
            given,
            ("name", "service_account", "expires_at", "scopes"),
            required=("name", "service_account"),
        )
        scopes = self._list("scopes", named["scopes"]) if "scopes" in named else []
        if len(scopes) > limits.KEY_BINDINGS_MAX:
            self._refuse(
                named["scopes"].line,
                f"scopes: {len(scopes)} of one key, at most {limits.KEY_BINDINGS_MAX} allowed",
            )
        return DeclaredKey(
            name=self._name(named["name"]),
            service_account=self._filled("service_account", named["service_account"]),
            expires_at=self._moment("expires_at", named["expires_at"]) if "expires_at" in named else None,
            scopes=tuple(sorted({self._scope(one) for one in scopes}, key=repr)),
        )

    def _webhook(self, given: _Value) -> Mapping[str, Any]:
        webhook = self._described(WEBHOOKS, given, usual={"events": EVENTS_USUAL})
        url_line = given.value["url"].line
        if not webhook["url"].startswith("https://") or len(webhook["url"]) > limits.WEBHOOK_URL_LENGTH_MAX:
            # Not shown: its path may be a secret.
            self._refuse(
                url_line,
                f"url: https://host/path of at most {limits.WEBHOOK_URL_LENGTH_MAX} characters required",
            )
        if not webhook["events"]:
            self._refuse(
                given.value["events"].line, f"events: at least one pattern required, as {EVENTS_USUAL[0]}"
            )
        return webhook

    def _budget(self, given: _Value) -> Mapping[str, Any]:
        budget = self._described(BUDGETS, given, usual={"period": MONTH, "policy": NOTIFY})
        # A rate goes with that policy alone, and a budget that had it before has no other one without.
        return budget if budget["policy"] == SLOW else {"slow_bytes_per_s": 0} | budget

    def _described(
        self, resource: Resource, given: _Value, *, usual: Mapping[str, str | tuple[str, ...]]
    ) -> dict[str, Any]:
        """An object of the resource, by its fields. `usual`: what a file means where it names none. What is given once
        is always there: a file that does not name it means its default, and an object that has another one differs."""
        known = {field.name: field for field in resource.fields if field.given in (Given.ONCE, Given.ALWAYS)}
        required = tuple(name for name, field in known.items() if field.default is None and name not in usual)
        named = self._fields(given, tuple(known), required)
        values: dict[str, Any] = {
            name: field.default
            for name, field in known.items()
            if field.given is Given.ONCE and field.default is not None
        }
        values |= {name: value if isinstance(value, str) else list(value) for name, value in usual.items()}
        values |= {name: self._field(known[name], value) for name, value in named.items()}
        return {name: values[name] for name in known if name in values}

    def _field(self, field: Field, given: _Value) -> Any:
        """A value of a described field, checked by its description. Several are sorted."""
        match field.kind:
            case Kind.WHOLE:
                number = self._number(field.name, given)
                self._checked(given.line, lambda: check(field, number))
                return number
            case Kind.WHOLES:
                numbers = {self._number(field.name, one) for one in self._list(field.name, given)}
                if field.items_max is not None and len(numbers) > field.items_max:
                    self._refuse(
                        given.line, f"{field.name}: {len(numbers)} of them, at most {field.items_max} allowed"
                    )
                for number in sorted(numbers):
                    self._checked(given.line, partial(check, field, number))
                return sorted(numbers)
            case Kind.FLAG:
                return self._flag(field.name, given)
            case Kind.TEXTS:
                return list(self._texts(field.name, given))
            case Kind.TEXT:
                if field.name == "name":
                    return self._name(given)
                text = self._text(field.name, given)
                self._checked(given.line, lambda: check(field, text))
                return text
            case _:
                raise AssertionError(f"a file cannot name {field.name}")

    def _moment(self, field: str, given: _Value) -> datetime:
        text = self._text(field, given)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self._refuse(given.line, f"{field}: {text[:32]!r} is no moment, as 2030-01-31T00:00:00Z")
        if moment.tzinfo is None:
            self._refuse(given.line, f"{field}: {text[:32]!r} has no time zone, as Z at its end")
        return moment

    def _scope(self, given: _Value) -> DeclaredScope:
        named = self._fields(given, ("resource", "name", "pattern", "operations"), required=("resource",))
        resource, name, pattern = self._resource(named)
        operations = self._texts("operations", named.get("operations"))
        scope = Scope(resource=resource, name=name, literal=pattern == "literal", operations=operations)
        self._checked(given.line, lambda: check_scope(scope))
        return DeclaredScope(resource=resource, name=name, pattern=pattern, operations=operations)

    def _resource(self, named: Mapping[str, _Value]) -> tuple[str, str, str]:
        """Kind, name and pattern of what an entry or a scope is about."""
        resource = self._text("resource", named["resource"])
        name = self._text("name", named["name"]) if "name" in named else ""
        pattern = self._text("pattern", named["pattern"]) if "pattern" in named else "literal"
        if pattern not in ("literal", "prefix"):
            self._refuse(named["pattern"].line, f"pattern: {pattern[:32]!r} is neither literal nor prefix")
        if resource == TENANT:
            pattern = "prefix"  # as REST shows it: a tenant has no name
        return resource, name, pattern

    def _principal(self, given: _Value) -> str:
        """`kind:name` or `everyone`; a file may also write `kind: name`."""
        if isinstance(given.value, dict):
            named = self._fields(given, _PRINCIPAL_KINDS)
            if len(named) != 1:
                self._refuse(given.line, f"one of {', '.join(_PRINCIPAL_KINDS)} required")
            kind, value = next(iter(named.items()))
            name = self._text(kind, value)
        else:
            text = self._text("principal", given)
            if text == "everyone":
                return text
            kind, _, name = text.partition(":")
        if kind not in _PRINCIPAL_KINDS or not name:
            self._refuse(
                given.line, "a principal is service_account: NAME, person: E-MAIL, group: NAME or everyone"
            )
        return f"{kind}:{name.lower() if kind == 'person' else name}"

    def _group(self, given: _Value) -> tuple[str, tuple[str, ...]]:
        named = self._fields(given, ("name", "members"), required=("name",))
        rows = self._list("members", named["members"]) if "members" in named else []
        members = {self._principal(one) for one in rows}
        if "everyone" in members:
            self._refuse(given.line, "members: everyone cannot be a member of a group")
        return self._name(named["name"]), tuple(sorted(members))

    def _topic(self, given: _Value) -> DeclaredTopic:
        named = self._fields(given, ("name", "partitions", "settings"), required=("name",))
        name = self._text("name", named["name"])
        self._checked(named["name"].line, lambda: check_topic_name("tenant", name))
        partitions = self._number("partitions", named["partitions"]) if "partitions" in named else 1
        if not 1 <= partitions <= limits.PARTITIONS_PER_TOPIC_MAX:
            self._refuse(
                named["partitions"].line,
                f"partitions: {partitions} is not within 1 to {limits.PARTITIONS_PER_TOPIC_MAX}",
            )
        settings: dict[str, int | str | None] = {}
        for setting, value in (
            self._fields(named["settings"], _SETTINGS, may_be_null=True) if "settings" in named else {}
        ).items():
            if value.value is None:
                settings[setting] = None
                continue
            settings[setting] = (
                self._text(setting, value).lower() if setting in _ENUMS else self._number(setting, value)
            )
            if setting not in _TOGETHER:
                self._checked(value.line, partial(TopicSettings.from_dict, {setting: settings[setting]}))
        return DeclaredTopic(name=name, partitions=partitions, settings=settings)

    def _number(self, field: str, given: _Value) -> int:
        if isinstance(given.value, bool) or not isinstance(given.value, int):
            self._refuse(given.line, f"{field}: a whole number required")
        return given.value

    def _flag(self, field: str, given: _Value) -> bool:
        if not isinstance(given.value, bool):
            self._refuse(given.line, f"{field}: true or false required")
        return given.value

    def _acl(self, given: _Value) -> DeclaredAcl:
        named = self._fields(
            given,
            ("effect", "principal", "resource", "name", "pattern", "operations", "addresses"),
            required=("effect", "principal", "resource"),
        )
        effect = self._text("effect", named["effect"])
        principal = self._principal(named["principal"])
        resource, name, pattern = self._resource(named)
        operations = self._texts("operations", named.get("operations"))
        addresses = self._texts("addresses", named.get("addresses"))
        self._checked(
            given.line,
            lambda: check_can_exist(
                Acl(
                    effect=effect,
                    principal="everyone",
                    resource=resource,
                    name=name,
                    literal=pattern == "literal",
                    operations=operations,
                    addresses=addresses,
                )
            ),
        )
        return DeclaredAcl(
            effect=effect,
            principal=principal,
            resource=resource,
            name=name,
            pattern=pattern,
            operations=operations,
            addresses=addresses,
        )
