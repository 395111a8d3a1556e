"""What the e-mails of the service say. Pure but for the public URL of the configuration."""

from datetime import datetime
from urllib.parse import quote

from control_plane import config
from control_plane.mail.letter import Letter

_NOT_YOU = "If this was not you, you need not do anything."


def _url(path: str, token: str = "") -> str:
    return f"{config.current().public_url.rstrip('/')}/{path}{quote(token)}"


def sign_up(tenant: str, token: str) -> Letter:
    """To an address that wants to sign up."""
    return Letter(
        subject="Finish your sign-up",
        paragraphs=(
            f"This address was given to create an account with the tenant {tenant}. Open the link, choose a "
            "password, and you are in.",
        ),
        link=_url("sign-up/", token),
        link_says="Finish signing up",
        after=(f"The link works once, within 24 hours. {_NOT_YOU} Without the link no account is made.",),
    )


def signed_up_before() -> Letter:
    """To an address that wants to sign up and has an account."""
    return Letter(
        subject="You have an account already",
        paragraphs=("This address was given to create an account, but it has one already. You can sign in.",),
        link=_url("sign-in"),
        link_says="Sign in",
        after=(f"If you forgot your password, the page of the sign-in helps. {_NOT_YOU}",),
    )


def prove_address(token: str) -> Letter:
    """To the address of a person who wants to prove it."""
    return Letter(
        subject="Verify your e-mail address",
        paragraphs=("Open the link to show that this address is yours.",),
        link=_url("verify/", token),
        link_says="Verify the address",
        after=(f"The link works once, within 24 hours. {_NOT_YOU}",),
    )


def change_address(token: str) -> Letter:
    """To the address that a person wants to have."""
    return Letter(
        subject="Your new e-mail address",
        paragraphs=(
            "This address was given as the new one of an account. Open the link and sign in to the account as before; "
            "then it has this address.",
        ),
        link=_url("address/", token),
        link_says="Use this address",
        after=(f"The link works once, within 24 hours. {_NOT_YOU} Without the link nothing changes.",),
    )


def address_taken() -> Letter:
    """To an address that has an account, or had it some days ago, and was given as the new one of another."""
    return Letter(
        subject="This address has an account already",
        paragraphs=(
            "This address was given as the new one of an account, but it has one already. It was not changed. If you "
            "want one account only, change the address of the other first.",
        ),
        link=_url("sign-in"),
        link_says="Sign in",
        after=(_NOT_YOU,),
    )


def address_changed(new: str, until: datetime, token: str) -> Letter:
    """To the address that a person had until now."""
    return Letter(
        subject="The e-mail address of your account was changed",
        paragraphs=(
            f"Your account has the address {new} from now on, and every other sign-in has ended. If this was you, you "
            "need not do anything.",
            f"If this was not you, take it back until {until:%d %B %Y, %H:%M} UTC: the account has this address again, "
            "every sign-in ends, no provider opens it any more until you link it again, and you choose a new password.",
        ),
        link=_url("address/take-back/", token),
        link_says="Take it back",
        after=("The link works once. Then look at your second factors and at the keys of your tenants.",),
    )


def address_taken_back() -> Letter:
    """To the address that a person had for some days."""
    return Letter(
        subject="The e-mail address of an account was changed back",
        paragraphs=(
            "The account that had this address has the one before again: its reader took the change back. Every "
            "sign-in has ended, and no provider opens the account any more.",
        ),
    )


def factors_required(tenant: str, since: datetime) -> Letter:
    """To a person without a second factor, of a tenant that wants one."""
    return Letter(
        subject=f"{tenant} requires a second factor",
        paragraphs=(
            f"The tenant {tenant} lets in only people with a second factor from {since:%d %B %Y, %H:%M} UTC on. "
            "You have none yet. Add codes of an app or a passkey on your account's page.",
        ),
        link=_url("account"),
        link_says="Add a second factor",
        after=("API keys are not affected.",),
    )


def factors_not_required(tenant: str, by: str) -> Letter:
    """To the owners of a tenant that lets in people without a second factor again."""
    return Letter(
        subject=f"{tenant} requires no second factor any more",
        paragraphs=(f"{by} ended it: people of the tenant {tenant} sign in without one again.",),
        link=_url(f"t/{tenant}/second-factors"),
        link_says="Look at it",
    )


def reset(token: str) -> Letter:
    """To a person who forgot their password."""
    return Letter(
        subject="Choose a new password",
        paragraphs=("A new password was asked for your account. Open the link to choose one.",),
        link=_url("reset/", token),
        link_says="Choose a password",
        after=(f"The link works once, within one hour. {_NOT_YOU} Your present password stays valid.",),
    )


def password_changed() -> Letter:
    """To a person whose password was changed."""
    return _notice(
        "Your password was changed",
        "The password of your account was changed, and every other sign-in has ended. API keys stay valid.",
    )


def factor_added(what: str, *, first: bool) -> Letter:
    """To a person whose sign-in asks for one more proof now; `what` names it. `first`: there was none before."""
    ended = " Every other sign-in has ended." if first else ""
    return _notice(
        "Your sign-in has a new second factor",
        f"{what} was added to your account. Signing in asks for a second factor.{ended}",
    )


def factor_removed(what: str) -> Letter:
    """To a person who has one second factor less."""
    return _notice("A second factor was removed", f"{what} was removed from your account.")


def recovery_code_used(left: int) -> Letter:
    """To a person who has signed in with a recovery code."""
    return _notice(
        "A recovery code was used",
        f"Your account was signed in to with a recovery code, which is spent now. You have {left} left; the "
        "account's page makes new ones.",
    )


def provider_linked(provider: str) -> Letter:
    """To a person whose account can be signed in to with a provider."""
    return _notice("A new way to sign in", f"You can sign in to your account with {provider} from now on.")


def invitation(*, tenant: str, role: str, inviter: str, token: str) -> Letter:
    """To a person who is invited to a tenant."""
    return Letter(
        subject=f"Invitation to {tenant}",
        paragraphs=(f"{inviter} invites you to the tenant {tenant} as {role}.",),
        link=_url("join/", token),
        link_says=f"Join {tenant}",
        after=(
            f"The link works once, within 7 days, and for this address alone. If you do not know {inviter}, "
            "you need not do anything.",
        ),
    )


def organisation_invitation(*, organisation: str, name: str, role: str, inviter: str, token: str) -> Letter:
    """To a person who is invited to an organisation. Its name stands beside what it is called."""
    called = organisation if organisation == name else f"{organisation} ({name})"
    return Letter(
        subject=f"Invitation to {called}",
        paragraphs=(
            f"{inviter} invites you to the organisation {called} as {role}. The role holds in each of its tenants.",
        ),
        link=_url("join/", token),
        link_says=f"Join {called}",
        after=(
            f"The link works once, within 7 days, and for this address alone. If you do not know {inviter}, "
            "you need not do anything.",
        ),
    )


def tenant_moved(tenant: str, *, name: str, organisation: str, by: str, came: bool) -> Letter:
    """To the owners of a tenant that was moved into an organisation, or out of it."""
    called = organisation if organisation == name else f"{organisation} ({name})"
    if came:
        subject = f"{tenant} was moved into the organisation {name}"
        text = (
            f"{by} moved the tenant {tenant} into the organisation {called}. Its members have their roles in it "
            "too. You own the tenant as before, and can move it out on its page of people."
        )
    else:
        subject = f"{tenant} was moved out of the organisation {name}"
        text = (
            f"{by} moved the tenant {tenant} out of the organisation {called}. Its members have no role in the tenant "
            "any more, unless one of their own, and keys that they made are revoked."
        )
    return Letter(
        subject=subject, paragraphs=(text,), link=_url(f"t/{tenant}/people"), link_says="Look at its people"
    )


def tenant_closed(tenant: str, purge_at: datetime) -> Letter:
    """To the owners of a tenant that was closed."""
    return Letter(
        subject=f"{tenant} was closed",
        paragraphs=(
            f"The tenant {tenant} was closed. Its keys are refused from now on. Until {purge_at:%d %B %Y} each "
            "owner can reopen it as it was; after that its topics and messages are deleted for good. What was "
            "used is invoiced when the month ends; fees end today.",
        ),
        link=_url(f"t/{tenant}/close"),
        link_says="Look at it, or reopen it",
    )


def _notice(subject: str, text: str) -> Letter:
    return Letter(
        subject=subject,
        paragraphs=(text,),
        link=_url("account"),
        link_says="Look at your account",
        after=("If this was not you, choose a new password at once and look at where you are signed in.",),
    )
