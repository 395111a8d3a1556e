"""Signing in with a provider, and linking one to an account."""

import hmac

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from control_plane.audit.actor import Actor, ActorKind
from penstock.contract.errors import NotFound, PenstockError
from tenants.models import Person
from tenants.providers import actions, queries
from web import notices, rate_limit, sessions
from web.forms.accounts import OwnForm
from web.forms.console_form import posted
from web.refusals import as_sentence
from web.tenant_access import signed_in
from web.views.account import go_on
from web.views.confirming import confirm_by

TRIES_PER_ADDRESS = 30
CHANGES_PER_PERSON = 10
"""Attempts within a minute."""


@never_cache
@require_safe
def begin(request: HttpRequest, provider: str) -> HttpResponse:
    """Send the browser to the provider."""
    found = queries.provider(provider)
    try:
        rate_limit.spend("provider", sessions.source_of(request), TRIES_PER_ADDRESS)
        token, url = actions.begin(found, wanted=request.GET.get("next", ""))
    except PenstockError as error:
        return _to_sign_in(error)
    response = HttpResponse(status=302, headers={"Location": url})
    sessions.keep_attempt(response, token)
    return response


@never_cache
@require_safe
def back(request: HttpRequest, provider: str) -> HttpResponse:
    """The provider has sent the browser back: sign in, or link the account of the person who began it."""
    queries.provider(provider)  # another address than a provider's is no page
    person = sessions.person_of(request)
    try:
        rate_limit.spend("provider", sessions.source_of(request), TRIES_PER_ADDRESS)
        response = _came_back(request, provider, person)
    except PenstockError as error:
        response = (
            notices.put(redirect("web:account"), _said(error), "caution") if person else _to_sign_in(error)
        )
    sessions.forget_attempt(response)
    return response


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def link(request: HttpRequest, person: Person, provider: str) -> HttpResponse:
    """Link a provider: after the password, a page with the way to it. Forms do not lead to other hosts."""
    found = queries.provider(provider)
    form = OwnForm(person, sessions.token_of(request), posted(request))
    if form.is_valid():
        try:
            confirm_by(request, person, form)
            token, url = actions.begin(found, person=person)
        except PenstockError as error:
            form.refuse(error)
        else:
            response = render(request, "web/provider_go.html", {"provider": found, "url": url})
            sessions.keep_attempt(response, token)
            return response
    return render(request, "web/provider_link.html", {"provider": found, "form": form}, status=form.status)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def unlink(request: HttpRequest, person: Person, identity: str) -> HttpResponse:
    """Take a provider away from the account, after a confirmation."""
    row = queries.identities(person).filter(public_id=identity).first()
    if row is None:
        raise NotFound(f"identity {identity[:64]!r} does not exist")
    name = queries.name_of(row)
    form = OwnForm(person, sessions.token_of(request), posted(request))
    if form.is_valid():
        try:
            confirm_by(request, person, form)
            actions.unlink(sessions.actor_of(request, person), person, identity)
        except PenstockError as error:
            form.refuse(error)
        else:
            return notices.put(redirect("web:account"), f"{name} opens your account no more.")
    return render(request, "web/provider_unlink.html", {"name": name, "form": form}, status=form.status)


def _came_back(request: HttpRequest, provider: str, person: Person | None) -> HttpResponse:
    found = queries.provider(provider)
    kept, state = sessions.attempt_of(request), request.GET.get("state", "")[:200]
    # The answer to another browser's question is not taken: it would sign this one in as another person.
    same = bool(kept) and hmac.compare_digest(kept.encode(), state.encode())
    attempt = actions.take(found, state if same else "")
    actor = Actor(
        kind=ActorKind.SYSTEM,
        id="sign-in",
        request_id=sessions.request_id_of(request),
        source=sessions.source_of(request),
    )
    code = request.GET.get("code", "")[:2000]
    identity = actions.identify(found, attempt, code=code, actor=actor)
    if attempt.person_id is None:
        begun = actions.enter(
            found,
            identity,
            source=sessions.source_of(request),
            browser=sessions.browser_of(request),
            request_id=sessions.request_id_of(request),
        )
        return go_on(request, begun, attempt.wanted)
    if person is None or person.pk != attempt.person_id:
        raise NotFound("you have signed out, or in as another person, meanwhile; link it again")
    actions.link(
        sessions.actor_of(request, person), person, found, identity, token=sessions.token_of(request)
    )
    return notices.put(redirect("web:account"), f"You can sign in with {found.name} from now on.")


def _to_sign_in(error: PenstockError) -> HttpResponse:
    return notices.put(redirect("web:sign-in"), _said(error), "caution")


def _said(error: PenstockError) -> str:
    return f"{as_sentence(error.message)}."
