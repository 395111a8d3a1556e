"""Changes of one's own account that want the password once more, and some time after signing in a second factor."""

from django.http import HttpRequest

from tenants.models import Person
from tenants.sign_in.confirming import confirm
from web import rate_limit, sessions
from web.forms.accounts import OwnForm

CHANGES_PER_PERSON = 10
"""Attempts within a minute."""


def confirm_by(request: HttpRequest, person: Person, form: OwnForm) -> None:
    """Raise unless the form shows that it is the person who acts: `InvalidRequest`, `Throttled`."""
    rate_limit.spend("own-change", person.public_id, CHANGES_PER_PERSON)
    confirm(
        sessions.actor_of(request, person),
        person,
        present=form.given,
        code=form.given_code,
        token=sessions.token_of(request),
    )
