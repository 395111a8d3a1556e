"""The person's own account: a new password, their sign-ins, and the page of a reset link."""

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import rotate_token
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from control_plane import config
from payments import former_payers
from penstock.contract.errors import PenstockError
from tenants.accounts import actions, address_queries, queries
from tenants.addresses import queries as addresses
from tenants.factors import passkeys
from tenants.factors import queries as factors
from tenants.models import Person
from tenants.providers import queries as providers
from web import notices, rate_limit, sessions
from web.forms.accounts import PasswordForm, ResetForm
from web.forms.console_form import posted
from web.paging import page_of
from web.tenant_access import signed_in

PER_PAGE = 50
PASSWORDS_PER_PERSON = 10
RESETS_PER_ADDRESS = 60
"""Attempts within a minute."""


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: HttpRequest, person: Person) -> HttpResponse:
    """The sign-ins, and a form for a new password."""
    form = PasswordForm(posted(request))
    if form.is_valid():
        try:
            rate_limit.spend("password", person.public_id, PASSWORDS_PER_PERSON)
            ended = actions.change_password(
                sessions.actor_of(request, person),
                person,
                present=form.cleaned_data["present"],
                new=form.cleaned_data["new"],
                keep=sessions.token_of(request),
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            rotate_token(request)
            return notices.put(redirect("web:account"), f"Your password is changed.{_sign_ins_ended(ended)}")
    token = sessions.token_of(request)
    page = page_of(request, queries.sign_ins(person).order_by("-pk"), PER_PAGE)
    items = [(row, queries.is_of_token(row, token)) for row in page]
    proved = addresses.is_proved(person)
    identities = list(providers.identities(person))
    context = {
        "form": form,
        "page": page,
        "items": items,
        "has_closed_invoices": bool(former_payers.tenants_of(person)),
        "proved": proved,
        "waiting": address_queries.pending(person),
        "may_prove": not proved and config.current().mail is not None,
        "factors": [(row, factors.name_of(row)) for row in factors.factors(person)],
        "identities": [(row, providers.name_of(row)) for row in identities],
        "linkable": [
            one for one in providers.providers() if one.issuer not in {row.issuer for row in identities}
        ],
        "passkeys_possible": passkeys.are_possible(),
        "has_codes": factors.has(person, factors.Type.TOTP),
        "codes_left": factors.recovery_codes_left(person),
    }
    return render(request, "web/account.html", context, status=form.status)


@signed_in
@require_POST
def end_one(request: HttpRequest, person: Person, sign_in: str) -> HttpResponse:
    """End one sign-in. After one's own the browser shows the sign-in page."""
    actions.end_sign_in(sessions.actor_of(request, person), person, sign_in)
    return notices.put(redirect("web:account"), "The sign-in has ended.")


@signed_in
@require_POST
def end_others(request: HttpRequest, person: Person) -> HttpResponse:
    """End all sign-ins except this browser's."""
    ended = actions.end_other_sign_ins(
        sessions.actor_of(request, person), person, keep=sessions.token_of(request)
    )
    return notices.put(
        redirect("web:account"), _sign_ins_ended(ended).strip() or "There was no other sign-in."
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def reset(request: HttpRequest, token: str) -> HttpResponse:
    """The page of a reset link: choose a password, then sign in with it."""
    rate_limit.spend("reset", sessions.source_of(request), RESETS_PER_ADDRESS)
    found = queries.reset_of(token)
    form = ResetForm(posted(request))
    if form.is_valid():
        try:
            actions.reset_password(
                token,
                new=form.cleaned_data["new"],
                request_id=sessions.request_id_of(request),
                source=sessions.source_of(request),
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            rotate_token(request)
            response = redirect("web:sign-in")
            sessions.forget_session(response)
            return notices.put(response, "Your password is changed. Sign in with it.")
    context = {"form": form, "member": found.person, "expires_at": found.expires_at}
    return render(request, "web/reset.html", context, status=form.status)


def _sign_ins_ended(ended: int) -> str:
    if not ended:
        return ""
    return " One other sign-in has ended." if ended == 1 else f" {ended} other sign-ins have ended."
