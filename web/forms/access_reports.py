"""The choice of e-mails about access reports."""

from django import forms

from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice

_YES, _NO = "yes", "no"


class MailsForm(ConsoleForm):
    """Whose e-mails, and whether they are wanted."""

    who = Choice(choices=[("to_owners", "owners"), ("to_me", "me")], widget=forms.HiddenInput)
    wants = Choice(choices=[(_YES, _YES), (_NO, _NO)], widget=forms.HiddenInput)

    @property
    def whose(self) -> str:
        return str(self.cleaned_data["who"])

    @property
    def wanted(self) -> bool:
        return bool(self.cleaned_data["wants"] == _YES)
