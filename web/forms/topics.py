"""Forms to make, change and delete topics."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.utils.html import format_html

from control_plane.topics import actions
from control_plane.topics.models import Topic
from penstock.contract import limits
from penstock.contract.errors import AlreadyExists, PenstockError
from penstock.rules.names import check_topic_name
from penstock.rules.timestamps import DAY_MS
from tenants.models import Tenant
from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice, Text, Whole

_UNITS_MS = {"hours": 3_600_000, "days": DAY_MS}
_UNLIMITED = "unlimited"
_FEW = {"min": 1, "max": limits.REPLICATION_FACTOR_MAX}
_DURABILITIES = {
    "fsync": ("on disk of every in-sync copy", "(fsync; survives a power failure of all)"),
    "replicated": ("in memory of every in-sync copy", "(replicated; faster)"),
}


class TopicForm(ConsoleForm):
    """The settings of a topic, for making and changing it."""

    lands: ClassVar = {
        "retention_ms": "retention",
        "max_message_bytes": "max_message_kib",
        "partitions_max": "partitions",
    }
    partitions = Whole(label="Partitions", widget=forms.NumberInput({"inputmode": "numeric"}))
    retention = Whole(
        label="Keep messages for",
        help_text="then they are deleted",
        required=False,
        widget=forms.NumberInput({"min": 1, "inputmode": "numeric"}),
        template_name="web/fields/retention.html",
    )
    retention_unit = Choice(
        label="Unit of retention",
        choices=[(unit, unit) for unit in (*_UNITS_MS, _UNLIMITED)],
        widget=forms.Select({"aria-label": "Unit of retention"}),
    )
    retention_bytes = Whole(
        label="Keep at most",
        help_text="MiB a partition; empty: no limit",
        required=False,
        widget=forms.NumberInput({"min": 1, "inputmode": "numeric"}),
    )
    durability = Choice(
        label="A write is acknowledged when it is",
        choices=[
            (name, format_html('{} <span class="faint">{}</span>', *texts))
            for name, texts in _DURABILITIES.items()
        ],
        widget=forms.RadioSelect,
        template_name="web/fields/choices.html",
    )
    replication = Whole(label="Copies", required=False, widget=forms.NumberInput(_FEW))
    min_insync_replicas = Whole(
        label="In sync to write",
        help_text="Writes are refused with fewer; empty: the default",
        required=False,
        widget=forms.NumberInput(_FEW),
    )
    max_message_kib = Whole(
        label="Largest message",
        help_text="KiB; empty: the service's default",
        required=False,
        widget=forms.NumberInput({"min": 1, "max": limits.MESSAGE_BYTES_MAX_LIMIT // limits.KIB}),
    )

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("retention_unit") == _UNLIMITED:
            self.pass_over("retention")
        else:
            self.require("retention")
        return self.cleaned_data

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the form, in the contract's units, without empty and invalid ones."""
        given = self.cleaned_data
        settings: dict[str, Any] = {}
        if given.get("retention_unit") == _UNLIMITED:
            settings["retention_ms"] = -1
        elif given.get("retention") is not None and "retention_unit" in given:
            settings["retention_ms"] = given["retention"] * _UNITS_MS[given["retention_unit"]]
        if "retention_bytes" in given:
            size = given["retention_bytes"]
            settings["retention_bytes"] = -1 if size is None else size * limits.MIB
        if given.get("max_message_kib") is not None:
            settings["max_message_bytes"] = given["max_message_kib"] * limits.KIB
        for name in ("durability", "replication", "min_insync_replicas"):
            if given.get(name) is not None:
                settings[name] = given[name]
        return settings


class NewTopicForm(TopicForm):
    """A new topic of `tenant`."""

    field_order = ("name",)
    name = Text(
        label="Name",
        help_text="Letters, digits and . _ - ; programs use the name, and it cannot be changed.",
        widget=forms.TextInput(
            {
                "maxlength": limits.TOPIC_NAME_LENGTH_MAX,
                "spellcheck": "false",
                "autocapitalize": "off",
                "autofocus": True,
            }
        ),
    )
    partitions = Whole(
        label="Partitions",
        help_text="So many programs can share the reading. Messages with the same key stay in one partition, in order."
        " You can add partitions later, but not remove them.",
        widget=forms.NumberInput({"min": 1, "max": limits.PARTITIONS_PER_TOPIC_MAX, "inputmode": "numeric"}),
    )
    replication = Whole(
        label="Copies",
        help_text="On different brokers; empty for the service's default.",
        required=False,
        widget=forms.NumberInput(_FEW),
    )

    def __init__(self, tenant: Tenant, data: Mapping[str, Any] | None = None) -> None:
        retention, unit = _split_span(limits.RETENTION_MS_DEFAULT)
        initial = {
            "partitions": 3,
            "retention": retention,
            "retention_unit": unit,
            "durability": "fsync",
            "max_message_kib": limits.MESSAGE_BYTES_MAX_DEFAULT // limits.KIB,
        }
        super().__init__(data, initial=initial)
        self._tenant = tenant

    def clean(self) -> dict[str, Any]:
        """Show all errors at once, not only the first one that the action would name."""
        super().clean()
        name, partitions = self.cleaned_data.get("name"), self.cleaned_data.get("partitions")
        if name is not None:
            self.about = name
            self.ask(lambda: check_topic_name(self._tenant.public_id, name))
        if partitions is not None:
            self.ask(lambda: actions.checked_partitions(partitions))
        self.ask(lambda: actions.complete(self.settings))
        return self.cleaned_data

    def field_of(self, error: PenstockError) -> str | None:
        return "name" if isinstance(error, AlreadyExists) else super().field_of(error)


class EditTopicForm(TopicForm):
    """The topic `row`, to be changed."""

    partitions = Whole(
        label="Partitions",
        help_text="The number can only grow. Keys are spread over all partitions, so a key's later messages may go to"
        " another one.",
        widget=forms.NumberInput,
    )
    replication = Whole(
        label="Copies",
        help_text="Made one at a time; empty: the default",
        required=False,
        widget=forms.NumberInput(_FEW),
    )

    def __init__(self, row: Topic, data: Mapping[str, Any] | None = None) -> None:
        settings = row.settings
        retention, unit = _split_span(settings["retention_ms"])
        size = settings["retention_bytes"]
        initial = {
            "partitions": row.partitions,
            "retention": retention,
            "retention_unit": unit,
            "retention_bytes": None if size < 0 else -(-size // limits.MIB),
            "replication": settings["replication"],
            "min_insync_replicas": settings["min_insync_replicas"],
            "durability": settings["durability"],
            "max_message_kib": -(-settings["max_message_bytes"] // limits.KIB),
        }
        super().__init__(data, initial=initial)
        self.about = row.name
        self.fields["partitions"].widget.attrs["min"] = row.partitions

    @property
    def settings(self) -> dict[str, Any]:
        """Those whose fields were changed: the form shows whole hours, KiB and MiB, which a topic's need not be. One
        that was emptied is None: the service's default.
        """
        changed = {*self.changed_data, *(["retention"] if "retention_unit" in self.changed_data else [])}
        emptied = dict.fromkeys(
            name
            for name in ("replication", "min_insync_replicas", "max_message_bytes")
            if self.cleaned_data.get(self.lands.get(name, name), "") is None
        )
        named = {**emptied, **super().settings}
        return {name: value for name, value in named.items() if self.lands.get(name, name) in changed}


class RestoreTopicForm(ConsoleForm):
    """The name under which a topic comes out of the recycle bin."""

    name = Text(
        label="Name",
        help_text="Give another one if a new topic has it",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )
    lands: ClassVar[Mapping[str, str]] = {"topic": "name"}

    def __init__(self, topic: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data, initial={"name": topic})


class DeleteTopicForm(ConsoleForm):
    """The name of the topic `topic`, typed again."""

    name = Text(
        label="Type the topic's name to delete it",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )

    def __init__(self, topic: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self._topic = topic
        self.fields["name"].help_text = topic

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name != self._topic:
            raise forms.ValidationError(f"Type {self._topic} exactly to delete it")
        return name


def _split_span(milliseconds: int) -> tuple[int, str]:
    if milliseconds < 0:
        return limits.RETENTION_MS_DEFAULT // DAY_MS, _UNLIMITED
    if milliseconds % DAY_MS == 0:
        return milliseconds // DAY_MS, "days"
    return max(1, milliseconds // _UNITS_MS["hours"]), "hours"
