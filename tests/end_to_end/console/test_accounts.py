"""A service with a mail server and a host name: signing up by a link, second factors with a browser's own passkey."""

import re
import secrets
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.end_to_end.console.conftest import PASSWORD, NewVisitor, Visitor
from tests.end_to_end.console.service import Service, running_service
from tests.end_to_end.console.test_pages import examine_in_both_themes
from tests.end_to_end.console.test_plain_browsers import look
from tests.mail_server import MailServer, html_of, mail_server, text_of
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, oidc_provider
from tests.one_time_codes import code_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture(scope="module")
def mails() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with oidc_provider() as running:
        yield running


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, mails: MailServer, provider: Provider
) -> Iterator[Service]:
    """Of this module alone; browsers take passkeys for a name, not for an address."""
    mail = {"server": mails.address, "sender": "penstock@service.example", "tls": "none"}
    acme = {
        "id": "acme",
        "name": "Acme",
        "issuer": provider.issuer,
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
    }
    path = tmp_path_factory.mktemp("accounts")
    with running_service(path, named=True, mail=mail, sign_in_providers=[acme]) as running:
        provider.redirect_uri = f"{running.url}/sign-in/with/acme/back"
        yield running


def link_in(mails: MailServer, address: str, subject: str) -> str:
    """The link in the e-mail of that subject, which comes by the worker."""

    def found() -> list[str]:
        return [text_of(one) for one in mails.to(address) if one["Subject"] == subject]

    wait_until(f"{subject!r} reaches {address}", lambda: bool(found()), instead=lambda: mails.received)
    (link,) = re.findall(r"http://localhost:\d+/\S+", found()[-1])[:1]
    return str(link)


def sign_up(visitor: Visitor, mails: MailServer, *, examined: bool = False) -> str:
    """The address of a new person, by the link that they got. Its pages are the same for everybody: who asks for it
    has them examined.
    """
    mark = secrets.token_hex(4)
    address, visitor.tenant = f"ann-{mark}@acme.example", f"team-{mark}"
    visitor.go("/sign-up")
    visitor.page.get_by_label("E-mail address").fill(address)
    visitor.page.get_by_label("Name of your tenant").fill(visitor.tenant)
    visitor.page.get_by_role("button", name="Send the link").click()
    expect(visitor.page.get_by_role("heading", name="Look at your e-mails")).to_be_visible()
    if examined:
        examine_in_both_themes(visitor.page)
        look(visitor, "mail-sent")
    visitor.page.goto(link_in(mails, address, "Finish your sign-up"))
    if examined:
        examine_in_both_themes(visitor.page)
        look(visitor, "sign-up-finish")
    visitor.page.get_by_label("Choose a password").fill(PASSWORD)
    visitor.page.get_by_role("button", name="Create account").click()
    visitor.page.wait_for_url(f"**/t/{visitor.tenant}")
    return address


def sign_out(visitor: Visitor) -> None:
    # In a narrow window the button is in the menu.
    visitor.page.set_viewport_size({"width": 1440, "height": 900})
    visitor.page.get_by_role("button", name="Sign out").first.click()


def sign_out_and_give_password(visitor: Visitor, address: str) -> None:
    sign_out(visitor)
    visitor.page.get_by_label("E-mail address").fill(address)
    visitor.page.get_by_label("Password").fill(PASSWORD)
    visitor.page.get_by_role("button", name="Sign in", exact=True).click()
    expect(visitor.page.get_by_role("heading", name="Second factor")).to_be_visible()


def picture_of_mails(visitor: Visitor, mails: MailServer, address: str) -> None:
    """What the e-mails to that person look like, in a browser."""
    visitor.page.goto("about:blank")  # whose policy lets an e-mail have its styles
    shown = {str(one["Subject"]): one for one in mails.to(address)}
    for subject, one in shown.items():
        visitor.page.set_content(html_of(one))
        look(visitor, "mail-" + re.sub(r"[^a-z]+", "-", subject.lower()))


def test_a_browsers_passkey_and_an_apps_codes_sign_a_person_in(
    new_visitor: NewVisitor, mails: MailServer
) -> None:
    visitor = new_visitor()
    address = sign_up(visitor, mails, examined=True)
    page = visitor.page
    devtools = visitor.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
    }
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    visitor.go("/account")
    expect(page.get_by_text("verified")).to_be_visible()
    examine_in_both_themes(page)
    page.get_by_role("link", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="Add a passkey")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "passkey")
    page.get_by_label("Name", exact=True).fill("laptop")
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Add the passkey").click()
    expect(page.get_by_role("heading", name="Keep your recovery codes")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "recovery-codes")
    (first, *_) = page.locator("#the-codes").inner_text().split()

    sign_out_and_give_password(visitor, address)
    examine_in_both_themes(page)
    look(visitor, "second-factor")
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url(f"**/t/{visitor.tenant}")

    visitor.go("/account/second-factors/codes")
    examine_in_both_themes(page)
    look(visitor, "codes")
    secret = page.locator("#the-key").inner_text().replace(" ", "")
    page.get_by_label("Code that the app shows").fill(code_of(secret, steps=-1))
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Ask for codes").click()
    expect(page.get_by_role("row", name="codes of an app")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "account")
    page.get_by_role("row", name="laptop").get_by_role("link", name="Remove").click()
    expect(page.get_by_role("heading", name="Remove laptop?")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "factor-remove")
    visitor.go("/account/second-factors/recovery-codes")
    examine_in_both_themes(page)

    # Without scripts a code does it.
    sign_out_and_give_password(visitor, address)
    browser = visitor.context.browser
    assert browser is not None
    plain = browser.new_context(java_script_enabled=False, storage_state=visitor.context.storage_state())
    plain_page = plain.new_page()
    plain_page.goto(f"{visitor.url}/sign-in/second-factor")
    expect(plain_page.get_by_text("runs no scripts")).to_be_visible()
    expect(plain_page.get_by_role("button", name="Use a passkey")).to_be_hidden()
    plain_page.get_by_label("Code").fill(first)
    plain_page.get_by_role("button", name="Sign in").click()
    plain_page.wait_for_url(f"**/t/{visitor.tenant}")
    plain.close()

    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
    page.get_by_label("Code").fill(code_of(secret))
    page.get_by_role("button", name="Sign in", exact=True).click()
    wait_until("the notice is there", lambda: any("recovery" in str(m["Subject"]) for m in mails.to(address)))
    picture_of_mails(visitor, mails, address)


def test_a_forgotten_password_is_chosen_anew(new_visitor: NewVisitor, mails: MailServer) -> None:
    visitor = new_visitor()
    address = sign_up(visitor, mails)
    page = visitor.page
    sign_out(visitor)
    page.get_by_role("link", name="Forgot your password?").click()
    expect(page.get_by_role("heading", name="Forgot your password?")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "forgot")
    page.get_by_label("E-mail address").fill(address)
    page.get_by_role("button", name="Send the link").click()
    expect(page.get_by_role("heading", name="Look at your e-mails")).to_be_visible()
    examine_in_both_themes(page)
    page.goto(link_in(mails, address, "Choose a new password"))
    page.get_by_label("The new password").fill("another horse, another battery")
    page.get_by_role("button", name="Set the password").click()
    page.get_by_label("E-mail address").fill(address)
    page.get_by_label("Password").fill("another horse, another battery")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(f"**/t/{visitor.tenant}")
    link_in(mails, address, "Your password was changed")
    picture_of_mails(visitor, mails, address)


def test_an_address_is_changed_by_its_link_and_taken_back_by_the_one_before(
    new_visitor: NewVisitor, mails: MailServer
) -> None:
    visitor = new_visitor()
    address = sign_up(visitor, mails)
    page = visitor.page
    visitor.go("/account")
    page.get_by_role("link", name="Change the address").click()
    expect(page.get_by_role("heading", name="Change your e-mail address")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "address-change")
    page.get_by_label("The new address").fill(f"new-{address}")
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Send the link").click()
    expect(page.get_by_role("button", name="Withdraw")).to_be_visible()
    examine_in_both_themes(page)
    page.goto(link_in(mails, f"new-{address}", "Your new e-mail address"))
    examine_in_both_themes(page)
    look(visitor, "address-confirm")
    page.get_by_role("button", name="Use it from now on").click()
    expect(page.get_by_role("heading", name="Your account")).to_be_visible()
    page.goto(link_in(mails, address, "The e-mail address of your account was changed"))
    examine_in_both_themes(page)
    look(visitor, "address-take-back")
    page.get_by_role("button", name="Take it back").click()
    expect(page.get_by_role("heading", name="Choose a password")).to_be_visible()
    expect(page.get_by_text(address).first).to_be_visible()
    visitor.go("/account")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_tenants_owner_sees_who_has_no_second_factor(new_visitor: NewVisitor, mails: MailServer) -> None:
    visitor = new_visitor()
    address = sign_up(visitor, mails)
    page = visitor.page
    visitor.go(f"/t/{visitor.tenant}/people")
    expect(page.get_by_role("row", name=address)).to_contain_text("none")
    examine_in_both_themes(page)
    page.get_by_role("link", name="Second factors").click()
    expect(page.get_by_text("You have no second factor yourself")).to_be_visible()
    examine_in_both_themes(page)
    visitor.go("/account/second-factors/codes")
    secret = page.locator("#the-key").inner_text().replace(" ", "")
    page.get_by_label("Code that the app shows").fill(code_of(secret))
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Ask for codes").click()
    expect(page.get_by_role("heading", name="Keep your recovery codes")).to_be_visible()
    visitor.go(f"/t/{visitor.tenant}/second-factors")
    examine_in_both_themes(page)
    look(visitor, "require-factors")
    page.get_by_label("Days to add one").fill("0")
    page.get_by_role("button", name="Require a second factor").click()
    expect(page.get_by_text("A second factor is required from")).to_be_visible()
    visitor.go(f"/t/{visitor.tenant}/second-factors")
    examine_in_both_themes(page)
    look(visitor, "factors-required")


def test_a_provider_is_linked_and_signs_in(
    new_visitor: NewVisitor, mails: MailServer, provider: Provider
) -> None:
    visitor = new_visitor()
    sign_up(visitor, mails)
    page = visitor.page
    visitor.hosts_expected = {f"127.0.0.1:{provider.port}"}
    visitor.go("/account")
    page.get_by_role("link", name="Link Acme").click()
    expect(page.get_by_role("heading", name="Link Acme")).to_be_visible()
    examine_in_both_themes(page)
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("heading", name="On to Acme")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "provider-go")
    page.get_by_role("link", name="Go on to Acme").click()
    page.get_by_role("link", name="Yes").click()
    expect(page.get_by_role("row", name="Acme")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "account-linked")
    sign_out(visitor)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "sign-in")
    page.get_by_role("link", name="Sign in with Acme").click()
    page.get_by_role("link", name="Yes").click()
    page.wait_for_url(f"**/t/{visitor.tenant}")


def test_an_owner_closes_a_tenant_and_reopens_it(new_visitor: NewVisitor, mails: MailServer) -> None:
    visitor = new_visitor()
    address = sign_up(visitor, mails)
    page = visitor.page
    page.get_by_role("link", name="Close the tenant").click()
    expect(page.get_by_role("heading", name=f"Close {visitor.tenant}")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "close")
    page.get_by_role("button", name="Protect it").click()
    expect(page.get_by_role("button", name="End the protection")).to_be_visible()
    examine_in_both_themes(page)
    page.get_by_role("button", name="End the protection").click()
    page.get_by_label("Type the tenant's name").fill(visitor.tenant)
    page.get_by_role("button", name="Close the tenant").click()
    expect(page.get_by_text("This tenant is closed")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "closed")
    page.get_by_role("link", name="Reopen").click()
    expect(page.get_by_role("heading", name=f"{visitor.tenant} is closed")).to_be_visible()
    examine_in_both_themes(page)
    look(visitor, "closed-page")
    page.get_by_role("button", name=f"Reopen {visitor.tenant}").click()
    expect(page.get_by_role("status")).to_contain_text("is open again")
    expect(page.get_by_text("This tenant is closed")).to_have_count(0)
    link_in(mails, address, f"{visitor.tenant} was closed")
    picture_of_mails(visitor, mails, address)
