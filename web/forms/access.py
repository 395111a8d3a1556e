"""Forms about what principals may do: entries of the access list, service accounts, groups of principals, questions."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from django import forms

from penstock.contract.limits import KEY_NAME_LENGTH_MAX, TOPIC_NAME_LENGTH_MAX
from penstock.rules import access as rules
from penstock.rules.access import Acl
from quotas import actions as quotas
from web.forms.console_form import ConsoleForm, choose
from web.forms.fields import Choice, Several, Text, Whole

_NAME = {"maxlength": TOPIC_NAME_LENGTH_MAX, "spellcheck": "false", "autocapitalize": "off"}
_NUMBER = {"inputmode": "numeric", "maxlength": 19}
PRESET_WORDS = {
    "producer": "send to",
    "consumer": "read, as a group",
    "owner": "do everything with",
    "read-only": "read, without groups",
}
RESOURCE_WORDS = {
    rules.TOPIC: "topics",
    rules.GROUP: "groups",
    rules.TRANSACTIONAL_ID: "transactional ids",
    rules.TENANT: "the tenant",
}
ALL_OPERATIONS = tuple(dict.fromkeys(one for each in rules.OPERATIONS_OF.values() for one in each))
SINGLE = "single"
"""The choice of an entry of its own beside the presets."""


class EntryForm(ConsoleForm):
    """Entries of an access list: a preset, or one entry of its own. `principals`: (principal, name)."""

    principal = Choice(label="Who")
    kind = Choice(
        label="May",
        initial="producer",
        choices=[*PRESET_WORDS.items(), (SINGLE, "an entry of its own: one operation, or a refusal")],
        widget=forms.Select({"data-chooses": True}),
    )
    effect = Choice(
        label="Effect",
        initial=rules.ALLOW,
        choices=[(rules.ALLOW, "allow"), (rules.DENY, "deny: wins over everything that allows")],
    )
    resource = Choice(label="On", initial=rules.TOPIC, choices=list(RESOURCE_WORDS.items()))
    operations = Several(
        label="Operations (none ticked: all of them)",
        choices=[(name, name) for name in ALL_OPERATIONS],
        required=False,
        before="may_",
    )
    name = Text(
        label="Name", required=False, help_text="Empty means all of them.", widget=forms.TextInput(_NAME)
    )
    pattern = Choice(
        label="The name is",
        initial="literal",
        choices=[("literal", "the whole name"), ("prefix", "the beginning of names")],
    )
    group_prefix = Text(
        label="Groups and transactional ids that begin with",
        required=False,
        widget=forms.TextInput(_NAME),
        help_text="Empty means all of them.",
    )
    addresses = Text(
        label="From",
        required=False,
        help_text="Addresses or networks such as 10.0.0.0/8, separated by commas. Empty means from anywhere.",
        widget=forms.TextInput({"spellcheck": "false", "autocapitalize": "off"}),
    )

    def __init__(
        self, principals: Sequence[tuple[str, str]], data: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        super().__init__(data, **options)
        choose(self, "principal", [*principals, (rules.EVERYONE, "everyone")])

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("kind") == SINGLE:
            self.pass_over("group_prefix")
            if self.cleaned_data.get("resource") == rules.TENANT:
                self.pass_over("name", "pattern")
        else:
            self.pass_over("effect", "resource", "operations", "addresses")
        if not self.errors:
            self.ask(self.acls)
        return self.cleaned_data

    def acls(self) -> list[Acl]:
        """The entries that the fields say. Raises `InvalidRequest`."""
        given = self.cleaned_data
        name, literal = given["name"] or "", given["pattern"] == "literal" and bool(given["name"])
        if given["kind"] != SINGLE:
            return rules.preset(
                given["kind"],
                principal=given["principal"],
                resource_name=name,
                literal=literal,
                group_prefix=given["group_prefix"] or "",
            )
        return [
            Acl(
                effect=given["effect"],
                principal=given["principal"],
                resource=given["resource"],
                name=name,
                literal=literal,
                operations=tuple(given["operations"] or ()),
                addresses=tuple(
                    part.strip() for part in (given["addresses"] or "").split(",") if part.strip()
                ),
            )
        ]


class AccountForm(ConsoleForm):
    """A new service account."""

    name = Text(
        label="Name",
        help_text="Say which program it is, for instance: billing worker.",
        widget=forms.TextInput({"maxlength": KEY_NAME_LENGTH_MAX, "autofocus": True}),
    )


class AccountLimitsForm(ConsoleForm):
    """Limits of a service account, or of each; empty: none of its own."""

    produce_bytes_per_s = Whole(
        label="Produce rate", help_text="Bytes a second", widget=forms.TextInput(_NUMBER), required=False
    )
    consume_bytes_per_s = Whole(
        label="Consume rate", help_text="Bytes a second", widget=forms.TextInput(_NUMBER), required=False
    )
    requests_per_s = Whole(
        label="Requests a second", help_text="Of its clients", widget=forms.TextInput(_NUMBER), required=False
    )

    def clean(self) -> dict[str, Any]:
        """Show all errors at once, not only the first one that the action would name."""
        for name in self.fields:
            self.ask(partial(quotas.check_limit, name, self.cleaned_data.get(name)))
        return self.cleaned_data


class MembersForm(ConsoleForm):
    """The members of a group of principals. `principals`: (principal, name)."""

    members = Several(label="Members", required=False, before="member_")

    def __init__(
        self, principals: Sequence[tuple[str, str]], data: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        super().__init__(data, **options)
        choose(self, "members", principals)


class GroupForm(MembersForm):
    """A new group of principals."""

    name = Text(label="Name", widget=forms.TextInput({"maxlength": KEY_NAME_LENGTH_MAX, "autofocus": True}))
    field_order = ("name", "members")


class QuestionForm(ConsoleForm):
    """Who may do that, or may this key?"""

    lands: ClassVar = {"operations": "operation"}

    operation = Choice(label="May", initial=rules.CONSUME, choices=[(name, name) for name in ALL_OPERATIONS])
    resource = Choice(
        label="Kind",
        initial=rules.TOPIC,
        choices=[(name, name.replace("_", " ")) for name in rules.RESOURCES],
    )
    name = Text(label="Name", required=False, widget=forms.TextInput(_NAME))
    key = Choice(label="With the key", required=False)
    address = Text(
        label="From the address",
        required=False,
        widget=forms.TextInput({"maxlength": 64, "spellcheck": "false", "placeholder": "not known"}),
    )

    def __init__(
        self, keys: Sequence[tuple[str, str]] = (), data: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        super().__init__(data, **options)
        choose(self, "key", [("", "any key"), *keys])

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("resource") == rules.TENANT:
            self.pass_over("name")
        if not self.errors:
            given = self.cleaned_data
            tenant = given["resource"] == rules.TENANT
            self.ask(
                lambda: rules.check_resource(
                    given["resource"], given["name"] or "", not tenant, (given["operation"],)
                )
            )
        return self.cleaned_data

    @property
    def question(self) -> tuple[str, str, str, str]:
        """Operation, resource, name and address."""
        given = self.cleaned_data
        return given["operation"], given["resource"], given["name"] or "", given["address"]
