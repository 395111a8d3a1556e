"""What a description of a resource consists of: plain values. What is made from them is made elsewhere."""

from dataclasses import dataclass
from enum import StrEnum

from penstock.contract.invariant import invariant

Value = str | int | bool | tuple[str, ...] | tuple[int, ...]


class Kind(StrEnum):
    """The type of a field."""

    TEXT = "text"
    WHOLE = "whole"
    FLAG = "flag"
    MOMENT = "moment"
    TEXTS = "texts"
    WHOLES = "wholes"
    MAP = "map"
    """Text by text."""


class Unit(StrEnum):
    """What one of a whole number is."""

    THING = "thing"
    """What the field's name says: topics, keys."""
    BYTE = "byte"
    MILLISECOND = "millisecond"
    DAY = "day"
    PERCENT = "percent"
    MICRO = "micro"
    """A millionth of a currency's unit."""


class Given(StrEnum):
    """When a caller gives a field's value."""

    NEVER = "never"
    """The service says it."""
    ONCE = "once"
    """When the object is made. Another value needs another object."""
    ALWAYS = "always"
    """When the object is made, and with any change."""
    LATER = "later"
    """With a change alone: a new object always has the same."""


class Method(StrEnum):
    """What a caller does with a resource: with all objects (`LIST`, `CREATE`), or with one."""

    LIST = "list"
    CREATE = "create"
    READ = "read"
    CHANGE = "change"
    SET = "set"
    """All that the object has, whether it is there or not."""
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A value that a field may have, and how people read it."""

    value: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A value of a resource. A name ends with its unit and its bound, as everywhere."""

    name: str
    kind: Kind
    label: str = ""
    """In forms and rows for people; empty: no form and no row has the field."""
    help: str = ""
    """One sentence, understood alone."""
    zero: str = ""
    """What 0 means, if not the number."""
    unit: Unit = Unit.THING
    low: int | None = None
    """The lowest value of a number, or of each of several."""
    high: int | None = None
    length_max: int | None = None
    items_max: int | None = None
    """How many values a field of several may have."""
    choices: tuple[Choice, ...] = ()
    given: Given = Given.ALWAYS
    default: Value | None = None
    """What a new object has if the caller gives none; None: the caller must."""
    null: str = ""
    """What it means that an answer has null here; empty: it never has."""
    blank: bool = False
    """Empty text is taken, and means that there is none."""
    made: bool = False
    """The service computes it for an answer; else it keeps it."""
    option: str = ""
    """On the command line, if it is not the name with hyphens."""

    def __post_init__(self) -> None:
        invariant(
            self.low is None or self.high is None or self.low <= self.high,
            f"{self.name}: low is not above high",
        )
        invariant(not self.choices or self.kind is Kind.TEXT, f"{self.name}: a text alone has choices")
        invariant(not self.zero or self.kind is Kind.WHOLE, f"{self.name}: a number alone is 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One thing that callers do with the resource: an operation of REST."""

    method: Method
    operation: str
    """Its id in the OpenAPI document."""
    about: str
    """What it does: the sentences that users read."""
    permission: str
    """As in the table of roles."""
    refuses: tuple[int, ...] = ()
    """Statuses of REST beside those that every operation may answer."""
    conditional: bool = False
    """It takes If-Match."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind of object that callers make, read, change and remove; or of which a tenant has one."""

    name: str
    """Of one, in lower case with `_`."""
    path: str
    """Of REST, without the version: where all of them are, or the only one is."""
    about: str = ""
    """What it is and what its users have to know, in a paragraph of Markdown."""
    fields: tuple[Field, ...]
    verbs: tuple[Verb, ...]
    of_tenant: bool = True
    """Each belongs to a tenant; else to the service, and is for operators."""
    delivered: bool = False
    """Brokers get a change: it answers whether they have it, with 202 where they do not."""
    tagged: bool = True
    """An answer about one has an ETag."""
    stays: bool = False
    """What is removed can still be read: it has ended."""
