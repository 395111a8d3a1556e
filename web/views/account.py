"""Signing up, in and out, and making tenants."""

from urllib.parse import quote

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import rotate_token
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from control_plane import config
from penstock.contract.errors import PenstockError
from tenants import actions, queries
from tenants.models import Person
from tenants.organisations import queries as organisations
from tenants.providers import queries as providers
from tenants.sign_in import actions as sign_ins
from web import notices, rate_limit, sessions
from web.broker_access import forget_person
from web.costs import prices_of_newcomers
from web.forms.accounts import SignInForm, SignUpForm, TenantForm
from web.forms.console_form import posted
from web.tenant_access import signed_in
from web.views.entering import end_session, open_account, welcome
from web.views.mailed_links import ask_to_sign_up

SIGN_IN_PER_PERSON = 10
SIGN_IN_PER_ADDRESS = 60
SIGN_UP_PER_ADDRESS = 30
"""Attempts within a minute."""


@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """To the person's first open tenant, to their organisations, or to the sign-in page."""
    person = sessions.person_of(request)
    if person is None:
        return redirect("web:sign-in")
    belongings = queries.belongings(person)
    if not belongings:
        member = organisations.organisations_of(person).exists()
        return redirect("web:organisations" if member else "web:new-tenant")
    return redirect("web:overview", queries.meant(belongings)[0].tenant.name)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Sign in. It always opens a new session: one that an attacker set in the browser is not used."""
    form = SignInForm(posted(request), initial={"next": request.GET.get("next", "")})
    if form.is_valid():
        given = form.cleaned_data
        try:
            email = given["email"].lower()
            rate_limit.spend("sign-in", sessions.source_of(request), SIGN_IN_PER_ADDRESS)
            rate_limit.spend("sign-in", f"{sessions.source_of(request)} {email[:150]}", SIGN_IN_PER_PERSON)
            begun = sign_ins.begin(
                email=email,
                password=given["password"],
                source=sessions.source_of(request),
                browser=sessions.browser_of(request),
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            return go_on(request, begun, given["next"] or "")
    elif not form.is_bound and sessions.person_of(request) is not None:
        return redirect("web:home")
    wanted = form.data.get("next", "") if form.is_bound else request.GET.get("next", "")
    context = {"form": form, "providers": providers.providers(), "next": wanted}
    return render(request, "web/sign_in.html", context, status=form.status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_up(request: HttpRequest) -> HttpResponse:
    """A person and their first tenant, at once; with a mail server the address gets a link first."""
    if config.current().mail is not None:
        return ask_to_sign_up(request)
    form = SignUpForm(posted(request))
    if form.is_valid():
        given = form.cleaned_data
        try:
            rate_limit.spend("sign-up", sessions.source_of(request), SIGN_UP_PER_ADDRESS)
            with transaction.atomic():
                person, tenant, token = actions.sign_up(
                    email=given["email"],
                    password=given["password"],
                    tenant_name=given["tenant"],
                    request_id=sessions.request_id_of(request),
                    source=sessions.source_of(request),
                    browser=sessions.browser_of(request),
                )
                open_account(request, tenant, person, form.chosen)
        except PenstockError as error:
            form.refuse(error)
        else:
            end_session(request)
            return welcome(request, redirect("web:overview", tenant.name), token)
    context = {"form": form, "prices": prices_of_newcomers()}
    return render(request, "web/sign_up.html", context, status=form.status)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session in the browser and in the database, and revoke the console's key of this person."""
    person = sessions.person_of(request)
    if person is not None:
        forget_person(sessions.actor_of(request, person), person)
    end_session(request)
    rotate_token(request)
    response = redirect("web:sign-in")
    sessions.forget_session(response)
    return response


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def new_tenant(request: HttpRequest, person: Person) -> HttpResponse:
    """One more tenant, owned by the person."""
    form = TenantForm(posted(request))
    if form.is_valid():
        try:
            with transaction.atomic():
                tenant = actions.create_tenant(
                    sessions.actor_of(request, person), name=form.cleaned_data["tenant"], owner=person
                )
                open_account(request, tenant, person, form.chosen)
        except PenstockError as error:
            form.refuse(error)
        else:
            return notices.put(redirect("web:overview", tenant.name), f"{tenant.name} is ready.")
    return render(request, "web/new_tenant.html", {"form": form}, status=form.status)


def go_on(request: HttpRequest, begun: sign_ins.Begun, wanted: str) -> HttpResponse:
    """To the page that the person asked for, or first to that of their second factor."""
    end_session(request)
    if begun.session:
        return welcome(request, redirect(inside(request, wanted)), begun.session)
    page = reverse("web:second-factor")
    response = redirect(f"{page}?next={quote(wanted)}" if wanted else page)
    sessions.keep_pending(response, begun.pending)
    sessions.forget_session(response)
    return response


def inside(request: HttpRequest, wanted: str) -> str:
    """The page that the person asked for, if it is one of this service."""
    if wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()}):
        return wanted
    return "web:home"
