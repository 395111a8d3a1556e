"""What every way in does to the browser: a new session, and the end of the one before."""

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import rotate_token

from tenants import actions
from web import sessions


def welcome(request: HttpRequest, response: HttpResponse, token: str) -> HttpResponse:
    """Give the browser the new session."""
    rotate_token(request)
    sessions.keep_session(response, token)
    sessions.forget_pending(response)
    return response


def end_session(request: HttpRequest) -> None:
    """End the session that the browser had, if any."""
    token = sessions.token_of(request)
    if token:
        actions.sign_out(token)
