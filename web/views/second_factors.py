"""Second factors: at sign-in, and on the person's own pages."""

from typing import Any

from allauth.mfa.adapter import get_adapter
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from penstock.contract.errors import NotFound, PenstockError, Unauthenticated
from tenants.factors import actions, queries
from tenants.models import Person
from tenants.sign_in import actions as sign_ins
from tenants.sign_in import queries as pending
from web import notices, rate_limit, sessions
from web.forms.accounts import AppCodesForm, CodeForm, OwnForm, PasskeyAnswerForm, PasskeyForm
from web.forms.console_form import ConsoleForm, posted
from web.tenant_access import signed_in
from web.views.account import inside
from web.views.confirming import confirm_by
from web.views.entering import welcome

CODES_PER_ADDRESS = 30
"""Attempts within a minute."""


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def second_factor(request: HttpRequest) -> HttpResponse:
    """The second step of signing in: a code, or a passkey."""
    try:
        waiting = pending.pending_of(sessions.pending_of(request))
    except Unauthenticated:
        return redirect("web:sign-in")
    token = sessions.pending_of(request)
    wanted = request.GET.get("next", "")
    code, answer = CodeForm(initial={"next": wanted}), PasskeyAnswerForm(initial={"next": wanted})
    by_passkey = "answer" in request.POST
    form: ConsoleForm = code
    if request.method == "POST":
        form = PasskeyAnswerForm(request.POST) if by_passkey else CodeForm(request.POST)
    if form.is_valid():
        given: dict[str, Any] = {
            "source": sessions.source_of(request),
            "browser": sessions.browser_of(request),
            "request_id": sessions.request_id_of(request),
        }
        try:
            rate_limit.spend("second-factor", sessions.source_of(request), CODES_PER_ADDRESS)
            if by_passkey:
                session = sign_ins.finish_with_passkey(token, answer=form.cleaned_data["answer"], **given)
            else:
                session = sign_ins.finish_with_code(token, code=form.cleaned_data["code"], **given)
        except Unauthenticated as error:
            return notices.put(redirect("web:sign-in"), _said(error), "caution")
        except PenstockError as error:
            form.refuse(error)
        else:
            return welcome(request, redirect(inside(request, form.cleaned_data["next"] or "")), session)
    # Below the code's field stands what a passkey's refusal says, too.
    code = form if isinstance(form, CodeForm) else code
    answer = form if isinstance(form, PasskeyAnswerForm) else answer
    has_passkey = queries.has(waiting.person, queries.Type.WEBAUTHN)
    context = {
        "member": waiting.person,
        "form": code,
        "answer": answer,
        "options": _asked(token) if has_passkey else None,
        "has_codes": queries.has(waiting.person, queries.Type.TOTP),
    }
    return render(request, "web/second_factor.html", context, status=form.status)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def add_codes(request: HttpRequest, person: Person) -> HttpResponse:
    """Set up codes of an app: the secret as a drawing and as text, then the first code."""
    secret = actions.begin_totp(person, token=sessions.token_of(request))
    form = AppCodesForm(person, sessions.token_of(request), posted(request))
    if form.is_valid():
        try:
            given = {"code": form.cleaned_data["code"], "token": sessions.token_of(request)}
            actions.check_totp(person, **given)
            confirm_by(request, person, form)
            codes = actions.add_totp(sessions.actor_of(request, person), person, **given)
        except PenstockError as error:
            form.refuse(error)
        else:
            return _added(request, codes, "Signing in asks for a code of your app from now on.")
    adapter = get_adapter()
    drawing = adapter.build_totp_svg(adapter.build_totp_url(person, secret))
    context = {"form": form, "secret": _in_fours(secret), "drawing": _inline(drawing)}
    return render(request, "web/factor_codes.html", context, status=form.status)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def add_passkey(request: HttpRequest, person: Person) -> HttpResponse:
    """Add a passkey. A browser without scripts cannot ask one; the page says so."""
    form = PasskeyForm(person, sessions.token_of(request), posted(request))
    if form.is_valid():
        try:
            name, answer = form.cleaned_data["name"], form.cleaned_data["answer"]
            actions.check_passkey(person, name=name, answer=answer)
            confirm_by(request, person, form)
            codes = actions.add_passkey(
                sessions.actor_of(request, person),
                person,
                name=name,
                answer=answer,
                token=sessions.token_of(request),
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            return _added(request, codes, f"{form.cleaned_data['name']} is added.")
    context = {"form": form, "options": actions.begin_passkey(person)}
    return render(request, "web/factor_passkey.html", context, status=form.status)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: HttpRequest, person: Person, factor: int) -> HttpResponse:
    """Remove a second factor, after a confirmation."""
    row = queries.factor(person, factor)
    name = queries.name_of(row)
    form = OwnForm(person, sessions.token_of(request), posted(request))
    if form.is_valid():
        try:
            actions.check_removal(person, factor)
            confirm_by(request, person, form)
            actions.remove(sessions.actor_of(request, person), person, factor)
        except PenstockError as error:
            form.refuse(error)
        else:
            return notices.put(redirect("web:account"), f"{name} is removed.")
    context = {"form": form, "name": name, "last": queries.factors(person).count() == 1}
    return render(request, "web/factor_remove.html", context, status=form.status)


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def recovery_codes(request: HttpRequest, person: Person) -> HttpResponse:
    """New recovery codes instead of the earlier ones."""
    if not queries.are_asked_for(person):
        raise NotFound("recovery codes stand in for a second factor; add one first")
    form = OwnForm(person, sessions.token_of(request), posted(request))
    if form.is_valid():
        try:
            confirm_by(request, person, form)
            codes = actions.renew_recovery_codes(sessions.actor_of(request, person), person)
        except PenstockError as error:
            form.refuse(error)
        else:
            return render(request, "web/recovery_codes.html", {"codes": codes})
    context = {"form": form, "left": queries.recovery_codes_left(person)}
    return render(request, "web/recovery_renew.html", context, status=form.status)


def _added(request: HttpRequest, codes: list[str], said: str) -> HttpResponse:
    """The recovery codes, if they are new; only this one page shows them."""
    if codes:
        return render(request, "web/recovery_codes.html", {"codes": codes, "said": said})
    return notices.put(redirect("web:account"), said)


def _asked(token: str) -> dict[str, Any] | None:
    try:
        return sign_ins.ask_passkey(token)
    except PenstockError:
        return None  # the sign-in has just ended: what is sent next says so


def _in_fours(secret: str) -> str:
    return " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))


def _inline(drawing: str) -> SafeString:
    """A drawing made here, of numbers alone, without the declaration that pages do not have."""
    return mark_safe(drawing[drawing.index("<svg") :])


def _said(error: PenstockError) -> str:
    return f"{error.message[:1].upper()}{error.message[1:]}."
