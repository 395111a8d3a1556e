"""The change of one's e-mail address: asking for it, the link to the new address, and the link that takes it back."""

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import rotate_token
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from control_plane import config
from penstock.contract.errors import PenstockError
from tenants.accounts import address_actions as actions
from tenants.accounts import address_queries as queries
from tenants.models import Person
from web import notices, rate_limit, sessions
from web.forms.accounts import NewAddressForm
from web.forms.console_form import ConsoleForm, posted
from web.tenant_access import signed_in
from web.views.confirming import confirm_by
from web.views.mailed_links import LINKS_PER_ADDRESS, MAILS_PER_ADDRESS


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def change(request: HttpRequest, person: Person) -> HttpResponse:
    """Ask for another address. The page says the same whether or not the address has an account."""
    form = NewAddressForm(person, sessions.token_of(request), posted(request))
    if form.is_valid():
        try:
            rate_limit.spend("mail", sessions.source_of(request), MAILS_PER_ADDRESS)
            email = form.cleaned_data["email"]
            actions.check_change(person, email)
            confirm_by(request, person, form)
            row = actions.ask_to_change(sessions.actor_of(request, person), person, email=email)
        except PenstockError as error:
            form.refuse(error)
        else:
            return notices.put(redirect("web:account"), f"A link is on its way to {row.after}.")
    context = {"form": form, "to_file": config.current().mail is None, "days": actions.UNDO_LENGTH.days}
    return render(request, "web/address_change.html", context, status=form.status)


@signed_in
@require_POST
def withdraw(request: HttpRequest, person: Person) -> HttpResponse:
    """Withdraw the change that waits: its link stops working."""
    actions.withdraw(sessions.actor_of(request, person), person)
    return notices.put(redirect("web:account"), "Your address stays as it is.")


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: HttpRequest, person: Person, token: str) -> HttpResponse:
    """The page of the link to the new address. Programs that check e-mails open links, so only the button counts."""
    rate_limit.spend("link", sessions.source_of(request), LINKS_PER_ADDRESS)
    found = queries.change_of(person, token)
    form = ConsoleForm(posted(request))
    if form.is_valid():
        try:
            actions.confirm_change(
                sessions.actor_of(request, person), person, token, keep=sessions.token_of(request)
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            rotate_token(request)
            said = f"Your address is {found.after} now. All your other sign-ins have ended."
            return notices.put(redirect("web:account"), said)
    context = {"form": form, "found": found, "days": actions.UNDO_LENGTH.days}
    return render(request, "web/address_confirm.html", context, status=form.status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def take_back(request: HttpRequest, token: str) -> HttpResponse:
    """The page of the link to the address before: it takes the change back, and leads to a new password."""
    rate_limit.spend("link", sessions.source_of(request), LINKS_PER_ADDRESS)
    found = queries.undo_of(token)
    form = ConsoleForm(posted(request))
    if form.is_valid():
        try:
            _, fresh = actions.take_back(
                token, request_id=sessions.request_id_of(request), source=sessions.source_of(request)
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            rotate_token(request)
            response = redirect("web:reset", fresh)
            sessions.forget_session(response)
            return notices.put(response, f"The account has the address {found.before} again.")
    context = {"form": form, "found": found}
    return render(request, "web/address_take_back.html", context, status=form.status)
