"""What every way in does to the browser: a new session, and the end of the one before."""

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import rotate_token

from billing import account_actions
from tenants import actions
from tenants.models import Person, Tenant
from web import sessions


def welcome(request: HttpRequest, response: HttpResponse, token: str) -> HttpResponse:
    """Give the browser the new session."""
    rotate_token(request)
    sessions.keep_session(response, token)
    sessions.forget_pending(response)
    return response


def open_account(request: HttpRequest, tenant: Tenant, owner: Person, currency: str) -> None:
    """The currency that the owner chose for the new tenant. Part of the transaction that makes it."""
    account_actions.open_for_newcomer(
        tenant, owner.public_id, sessions.request_id_of(request), sessions.source_of(request), currency
    )


def end_session(request: HttpRequest) -> None:
    """End the session that the browser had, if any."""
    token = sessions.token_of(request)
    if token:
        actions.sign_out(token)
