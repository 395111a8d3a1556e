"""Pages about links in e-mails: sign-ups, forgotten passwords, and proofs of addresses."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from control_plane import config
from penstock.contract.errors import PenstockError
from tenants.accounts import actions as accounts
from tenants.addresses import actions, queries
from tenants.models import Person
from web import notices, rate_limit, sessions
from web.costs import prices_of_newcomers
from web.forms.accounts import AddressForm, AskSignUpForm, FinishSignUpForm
from web.forms.console_form import ConsoleForm, posted
from web.tenant_access import signed_in
from web.views.entering import end_session, open_account, welcome

MAILS_PER_ADDRESS = 10
LINKS_PER_ADDRESS = 60
"""Attempts within a minute, of one address of the network."""


def ask_to_sign_up(request: HttpRequest) -> HttpResponse:
    """The sign-up of a service with a mail server: a link to the address, or the same words without one."""
    form = AskSignUpForm(posted(request))
    if form.is_valid():
        given = form.cleaned_data
        try:
            rate_limit.spend("mail", sessions.source_of(request), MAILS_PER_ADDRESS)
            actions.ask_to_sign_up(
                email=given["email"],
                tenant_name=given["tenant"],
                request_id=sessions.request_id_of(request),
                source=sessions.source_of(request),
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            return render(request, "web/mail_sent.html", {"email": given["email"], "what": "sign-up"})
    context = {"form": form, "prices": prices_of_newcomers(), "by_mail": True}
    return render(request, "web/sign_up.html", context, status=form.status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def finish_sign_up(request: HttpRequest, token: str) -> HttpResponse:
    """The page of a link to sign up by: choose a password."""
    rate_limit.spend("link", sessions.source_of(request), LINKS_PER_ADDRESS)
    found = queries.sign_up_of(token)
    form = FinishSignUpForm(posted(request), initial={"tenant": found.tenant_name})
    if form.is_valid():
        try:
            with transaction.atomic():
                person, tenant, session = actions.sign_up_by_link(
                    token,
                    password=form.cleaned_data["password"],
                    tenant_name=form.cleaned_data["tenant"],
                    request_id=sessions.request_id_of(request),
                    source=sessions.source_of(request),
                    browser=sessions.browser_of(request),
                )
                open_account(request, tenant, person, form.chosen)
        except PenstockError as error:
            form.refuse(error)
        else:
            end_session(request)
            return welcome(request, redirect("web:overview", tenant.name), session)
    return render(request, "web/sign_up_finish.html", {"form": form, "found": found}, status=form.status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def forgot(request: HttpRequest) -> HttpResponse:
    """A link for a new password, by e-mail. The page says the same whether or not the address has an account."""
    form = AddressForm(posted(request))
    if form.is_valid():
        try:
            rate_limit.spend("mail", sessions.source_of(request), MAILS_PER_ADDRESS)
            accounts.ask_for_reset(
                email=form.cleaned_data["email"],
                request_id=sessions.request_id_of(request),
                source=sessions.source_of(request),
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            context = {"email": form.cleaned_data["email"], "what": "reset", "to_file": _to_file()}
            return render(request, "web/mail_sent.html", context)
    return render(request, "web/forgot.html", {"form": form, "to_file": _to_file()}, status=form.status)


@signed_in
@require_POST
def ask_for_proof(request: HttpRequest, person: Person) -> HttpResponse:
    """Mail the person a link that proves their address."""
    actions.ask_for_proof(sessions.actor_of(request, person), person)
    return notices.put(redirect("web:account"), f"A link is on its way to {person.email}.")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def prove(request: HttpRequest, token: str) -> HttpResponse:
    """The page of a link that proves an address. Programs that check e-mails open links, so only the button counts."""
    rate_limit.spend("link", sessions.source_of(request), LINKS_PER_ADDRESS)
    found = queries.proof_of(token)
    form = ConsoleForm(posted(request))
    if form.is_valid():
        person = actions.prove(
            token, request_id=sessions.request_id_of(request), source=sessions.source_of(request)
        )
        return notices.put(redirect("web:account"), f"{person.email} is verified.")
    return render(request, "web/verify.html", {"form": form, "found": found}, status=form.status)


def _to_file() -> bool:
    return config.current().mail is None
