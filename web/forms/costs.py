"""Forms about costs: the tags of a topic or a principal, and where a tenant is for taxes."""

from django import forms

from billing import cost_tags
from billing.tax_models import ADDRESS_LENGTH_MAX, EMAIL_LENGTH_MAX, TAX_ID_LENGTH_MAX
from penstock.contract.resources.cost_tags import NAME, TAG_LENGTH_MAX, TAGS, TAGS_OF_ONE_MAX
from web.forms.console_form import ConsoleForm
from web.forms.described import box
from web.forms.fields import Choice, Text


def _part(label: str) -> Text:
    return Text(label=label, required=False, widget=forms.TextInput({"maxlength": ADDRESS_LENGTH_MAX}))


_TEXT_MAX = TAGS_OF_ONE_MAX * 2 * (TAG_LENGTH_MAX + 2)


class TaxAddressForm(ConsoleForm):
    """The tenant's billing profile: who and where it is."""

    legal_name = Text(
        label="Legal name",
        required=False,
        help_text="Who is invoiced. Empty: the tenant's name",
        widget=forms.TextInput({"maxlength": ADDRESS_LENGTH_MAX}),
    )

    country = Text(
        label="Country", help_text="Two letters: DE.", widget=forms.TextInput({"maxlength": 2, "size": 4})
    )
    line1 = _part("Street and number")
    line2 = _part("Second line")
    postal_code = _part("Postal code")
    city = _part("City")
    state = _part("State or province")
    tax_id_type = Text(
        label="Type of the tax number",
        required=False,
        help_text="As Stripe calls it: eu_vat, us_ein. Empty: no number.",
        widget=forms.TextInput({"maxlength": 20, "spellcheck": "false"}),
    )
    tax_id = Text(
        label="Tax number", required=False, widget=forms.TextInput({"maxlength": TAX_ID_LENGTH_MAX})
    )
    email = Text(
        label="E-mail address for invoices",
        required=False,
        help_text="Empty: to the people who may pay them",
        widget=forms.TextInput({"maxlength": EMAIL_LENGTH_MAX, "type": "email"}),
    )
    no_mail = forms.BooleanField(
        label="Send no invoices by e-mail", required=False, template_name="web/fields/tick.html"
    )


class CostTagsForm(ConsoleForm):
    """All tags of one topic or principal."""

    kind = Choice(label="Of", choices=[(cost_tags.TOPIC, "Topic"), (cost_tags.PRINCIPAL, "Principal")])
    name = box(NAME)
    tags = Text(
        label=TAGS.label,
        help_text="As team=payments, stage=test. Empty: none.",
        required=False,
        widget=forms.TextInput({"maxlength": _TEXT_MAX, "spellcheck": "false"}),
    )

    def clean_tags(self) -> dict[str, str]:
        """Raises `ValidationError`."""
        found: dict[str, str] = {}
        for part in filter(None, (one.strip() for one in self.cleaned_data["tags"].split(","))):
            key, equals, value = part.partition("=")
            if not equals or key.strip() in found:
                raise forms.ValidationError("As team=payments, each key once, with a comma between them.")
            found[key.strip()] = value.strip()
        return found
