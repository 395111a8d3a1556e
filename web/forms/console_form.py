"""What all forms of the console share: how fields look, and where a refusal stands."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from django import forms
from django.forms.renderers import DjangoTemplates
from django.http import HttpRequest, QueryDict

from penstock.contract.errors import PenstockError, Throttled
from web.refusals import as_sentence, split_message


class _Renderer(DjangoTemplates):
    field_template_name = "web/fields/field.html"


class _BoundField(forms.BoundField):
    """A field that people are led to when it is the first one with an error."""

    def build_widget_attrs(self, attrs: dict[str, Any], widget: forms.Widget | None = None) -> dict[str, Any]:
        attrs = super().build_widget_attrs(attrs, widget)
        if self.form.errors:
            first = next((name for name in self.form.fields if name in self.form.errors), "")
            # Groups of boxes are no single input that could be led to.
            attrs["autofocus"] = self.name == first and not self.use_fieldset
        return attrs


class ConsoleForm(forms.Form):
    """A form whose errors come from its fields, from the rules that it asks, and from the action that it is for.

    A view gives it what was posted, acts if it is valid, hands a refusal to `refuse`, and answers with `status`.
    """

    default_renderer = _Renderer()
    bound_field_class = _BoundField
    about: str = ""
    """The name of what the form is about: a refusal that begins with it keeps its letters."""
    lands: ClassVar[Mapping[str, str]] = {}
    """Names that the rules use -> fields of this form, where the two differ."""

    def __init__(self, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(data, **{"auto_id": "f-%s", **options})
        self._throttled = False

    @classmethod
    def asked(cls, query: QueryDict, **options: Any) -> Self:
        """Bound to an address. What the address leaves out is as at first."""
        form = cls(**options)
        initial = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
        return cls(data={**initial, **query.dict()}, **options)

    @property
    def status(self) -> int:
        """Of the page that shows the form."""
        if self._throttled:
            return 429
        return 422 if self.errors else 200

    def field_of(self, error: PenstockError) -> str | None:
        """The field that a refusal is about; None if it is about no field of this form."""
        name, _ = split_message(error.message)
        name = self.lands.get(name, name)
        return name if name in self.fields else None

    def refuse(self, error: PenstockError) -> None:
        """Show a refusal at its field, or above the form."""
        name, text = split_message(error.message)
        field = self.field_of(error)
        self._throttled = isinstance(error, Throttled)
        # A form without fields has nothing that the name could mean to people.
        told = bool(field or not name or not self.fields)
        text = text if self.about and text.split(maxsplit=1)[0] == self.about else as_sentence(text)
        self.add_error(field, text if told else f"{name}: {text}")

    def ask(self, rule: Callable[[], object]) -> None:
        """Let a rule look at what the fields hold, and show what it refuses."""
        try:
            rule()
        except PenstockError as error:
            self.refuse(error)

    def pass_over(self, *names: str) -> None:
        """These fields mean nothing beside what was chosen in others: right or wrong, they hold None."""
        for name in names:
            self.errors.pop(name, None)
            self.cleaned_data[name] = None

    def demand(self, name: str) -> None:
        """This field must be filled in because of what was chosen in others."""
        field = self.fields[name]
        if name not in self.errors and self.cleaned_data.get(name) in field.empty_values:
            self.add_error(name, field.error_messages["required"])


def posted(request: HttpRequest) -> QueryDict | None:
    """What was sent; None where a form is only to be shown."""
    return request.POST if request.method == "POST" else None
