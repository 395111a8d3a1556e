"""Forms of restores: what is asked before something becomes as it was."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms

from web.forms.console_form import ConsoleForm
from web.forms.fields import Text


class RestoreForm(ConsoleForm):
    """`leaves_out`: something names principals that are gone. `name`: the name of what comes back, where it has one."""

    name = Text(
        label="Name",
        help_text="Give another one if its own is taken",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )
    leave_out_gone = forms.BooleanField(
        label="Restore without them",
        help_text="(what names a principal that is gone)",
        required=False,
        template_name="web/fields/tick.html",
    )
    lands: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, leaves_out: bool = False, name: str | None = None
    ) -> None:
        super().__init__(data, initial={} if name is None else {"name": name})
        if not leaves_out:
            del self.fields["leave_out_gone"]
        if name is None:
            del self.fields["name"]
