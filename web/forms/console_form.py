"""The base of all forms of the console: how fields look, and where a refusal is shown."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from django import forms
from django.forms.renderers import DjangoTemplates
from django.http import HttpRequest, QueryDict

from penstock.contract.errors import PenstockError, Throttled, split_message
from web.refusals import as_sentence


class _Renderer(DjangoTemplates):
    field_template_name = "web/fields/field.html"


class _BoundField(forms.BoundField):
    """A field that gets the focus when it is the first one with an error."""

    def build_widget_attrs(self, attrs: dict[str, Any], widget: forms.Widget | None = None) -> dict[str, Any]:
        attrs = super().build_widget_attrs(attrs, widget)
        if self.form.errors:
            first = next((name for name in self.form.fields if name in self.form.errors), "")
            # A group of boxes has no single input that could get the focus.
            attrs["autofocus"] = self.name == first and not self.use_fieldset
        return attrs


class ConsoleForm(forms.Form):
    """A form whose errors come from its fields, from the rules that it asks, and from its action.

    A view gives it the posted data, acts if it is valid, passes a refusal to `refuse`, and answers with `status`.
    """

    default_renderer = _Renderer()
    bound_field_class = _BoundField
    about: str = ""
    """The name of the form's object: a refusal that begins with it keeps its first letter."""
    lands: ClassVar[Mapping[str, str]] = {}
    """Names in refusals -> fields of this form, where the two differ."""

    def __init__(self, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(data, **{"auto_id": "f-%s", **options})
        self._throttled = False

    @classmethod
    def asked(cls, query: QueryDict, **options: Any) -> Self:
        """Bound to an address. Fields that the address does not name have their initial values."""
        form = cls(**options)
        initial = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
        return cls(data={**initial, **query.dict()}, **options)

    @property
    def status(self) -> int:
        """HTTP status of the page with the form."""
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
        # In a form without fields the name would mean nothing to people.
        without_name = bool(field or not name or not self.fields)
        text = text if self.about and text.split(maxsplit=1)[0] == self.about else as_sentence(text)
        self.add_error(field, text if without_name else f"{name}: {text}")

    def ask(self, rule: Callable[[], object]) -> None:
        """Let a rule check the fields' values, and show its refusal."""
        try:
            rule()
        except PenstockError as error:
            self.refuse(error)

    def pass_over(self, *names: str) -> None:
        """These fields have no meaning with the choice in another field: valid or not, they become None."""
        for name in names:
            self.errors.pop(name, None)
            self.cleaned_data[name] = None

    def require(self, name: str) -> None:
        """This field must be filled in because of the choice in another field."""
        field = self.fields[name]
        if name not in self.errors and self.cleaned_data.get(name) in field.empty_values:
            self.add_error(name, field.error_messages["required"])


def choose(form: ConsoleForm, name: str, choices: Sequence[tuple[str, str]]) -> None:
    """What a field of choices offers: (value, words)."""
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)
    field.choices = choices


def posted(request: HttpRequest) -> QueryDict | None:
    """The posted data; None if the form is only shown."""
    return request.POST if request.method == "POST" else None
