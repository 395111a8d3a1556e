"""Histories on the console: each restore shows the difference, and asks; and so does the removal of an entry."""

import re

import pytest
from django.test import Client

from control_plane.access import list_actions, queries
from control_plane.access.actions import create_key
from control_plane.audit.models import AuditEntry
from control_plane.outbox import in_request
from control_plane.topics import actions as topics
from control_plane.topics import queries as topic_queries
from penstock.rules.access import Acl
from quotas.actions import set_limits
from tenants.models import ApiKey
from tenants.roles import Standing
from tests.control_plane.history.restoring import HOUR, acl, last_number, owner, says
from tests.control_plane.world import ACTOR, House, everything_delivered, make_house

pytestmark = pytest.mark.django_db

ENTRY = Acl(effect="deny", principal="everyone", resource="topic", name="orders", literal=True)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    monkeypatch.setattr(topic_queries, "ASK_S", 0.05)


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    topics.create_topic(ACTOR, made.tenant, name="orders", partitions=1, settings={"retention_ms": HOUR})
    everything_delivered()
    return made


def signed_in(house: House, standing: Standing = Standing.OWNER) -> Client:
    client = Client()
    client.cookies["penstock"] = house.credentials[standing]
    return client


def page(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(f"/t/acme/{path}")
    assert answer.status_code == status, answer.content
    return answer.content.decode()


def retention(house: House) -> int:
    return int(topic_queries.topic(house.tenant, "orders").settings["retention_ms"])


def test_a_topics_settings_are_restored_after_the_difference_was_shown(house: House) -> None:
    client = signed_in(house)
    first = last_number(house.tenant)
    topics.update_topic(ACTOR, house.tenant, "orders", settings={"retention_ms": 2 * HOUR})
    listed = page(client, "topics/orders/history")
    assert f'href="/t/acme/topics/orders/history/{first}/restore"' in listed and "topic.update" in listed
    assert listed.count("/restore") == 1, "the newest version is not restored"
    path = f"topics/orders/history/{first}/restore"
    shown = re.sub(r"<[^>]+>", " ", page(client, path))
    assert re.search(rf"retention_ms\s+{2 * HOUR}\s+{HOUR}", shown), shown
    assert retention(house) == 2 * HOUR, "a page changes nothing"
    assert client.post(f"/t/acme/{path}").status_code == 302
    assert retention(house) == HOUR
    assert "changes nothing" in page(client, path)


def test_a_refused_restore_says_why(house: House) -> None:
    client = signed_in(house)
    topics.update_topic(ACTOR, house.tenant, "orders", settings={"retention_ms": 2 * HOUR})
    first = last_number(house.tenant)
    topics.update_topic(ACTOR, house.tenant, "orders", settings={"retention_ms": HOUR})
    set_limits(ACTOR, house.tenant, retention_ms_max=HOUR)
    answer = client.post(f"/t/acme/topics/orders/history/{first}/restore")
    assert answer.status_code == 422 and "at most 3600000 allowed" in answer.content.decode()
    for wrong in ("0", "x", "٣", "9" * 17, "9" * 50):
        assert client.get(f"/t/acme/topics/orders/history/{wrong}/restore").status_code == 404, wrong


def test_an_entry_is_removed_only_after_its_page_asked(house: House) -> None:
    client = signed_in(house)
    _, (entry,) = list_actions.add_acls(ACTOR, house.tenant, [ENTRY])
    path = f"access/entries/{entry.public_id}"
    assert f'<a class="button little danger" href="/t/acme/{path}/remove">' in page(client, "access")
    asked = page(client, f"{path}/remove")
    assert "everyone" in asked and "topic orders" in asked and "can be restored for 7 days" in asked
    assert queries.acl(house.tenant, entry.public_id).effect == "deny"
    assert client.post(f"/t/acme/{path}/remove").status_code == 302
    assert not queries.acls(house.tenant).exists()
    assert f'href="/t/acme/{path}/restore"' in page(client, "access/removed")
    assert "deny everyone everything on topic orders" in page(client, f"{path}/restore")
    assert client.post(f"/t/acme/{path}/restore").status_code == 302
    assert queries.acl(house.tenant, entry.public_id).effect == "deny"


def test_the_list_is_restored_after_what_comes_and_goes_was_shown(house: House) -> None:
    client, tenant = signed_in(house), house.tenant
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    list_actions.add_acls(ACTOR, tenant, [acl("a", f"service_account:{account.public_id}")])
    list_actions.add_acls(ACTOR, tenant, [acl("b")])
    number = last_number(tenant)
    list_actions.end_account(ACTOR, tenant, account)
    list_actions.add_acls(ACTOR, tenant, [acl("c")])
    list_actions.set_default(owner(tenant), tenant, "deny")
    path = f"access/history/{number}/restore"
    assert f'href="/t/acme/{path}"' in page(client, "access/history")
    shown = page(client, path)
    assert "allow everyone everything on topic c" in shown and "(robot)." in shown
    refused = client.post(f"/t/acme/{path}")
    assert refused.status_code == 422 and "is gone" in refused.content.decode()
    assert client.post(f"/t/acme/{path}", {"leave_out_gone": "on"}).status_code == 302
    assert says(tenant) == {"allow b"} and queries.access_list(tenant).default == "allow"


def test_groups_accounts_and_keys_come_back_from_what_was_removed(house: House) -> None:
    client, tenant = signed_in(house), house.tenant
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    key, _ = create_key(owner(tenant), tenant, name="robot's", account=account, topic_prefix="orders")
    _, group = list_actions.create_group(ACTOR, tenant, name="robots", members=[])
    list_actions.add_acls(ACTOR, tenant, [acl("a", f"service_account:{account.public_id}")])
    list_actions.end_account(ACTOR, tenant, account)
    list_actions.remove_group(ACTOR, tenant, group.public_id)
    version = AuditEntry.objects.get(action="principal_group.delete").sequence
    removed = page(client, "access/removed")
    paths = {
        "group": f"access/groups/{group.public_id}/history/{version}/restore",
        "account": f"access/accounts/{account.public_id}/restore",
        "key": f"keys/{key.public_id}/restore",
    }
    assert all(f'href="/t/acme/{path}"' in removed for path in paths.values())
    assert "a removed group" in page(client, f"access/groups/{group.public_id}/history")
    assert client.post(f"/t/acme/{paths['group']}", {"name": "robots-again"}).status_code == 302
    assert queries.group(tenant, group.public_id).name == "robots-again"
    assert "all of its keys" not in page(client, paths["account"])
    assert client.post(f"/t/acme/{paths['account']}", {"name": "robot"}).status_code == 302
    assert says(tenant) == {"allow a"}
    assert "everything on topic or group orders*" in page(client, paths["key"])
    made = client.post(f"/t/acme/{paths['key']}")
    assert made.status_code == 200 and "penstock_" in made.content.decode()
    again = ApiKey.objects.filter(service_account=account, revoked_at=None).get()
    assert again.pk != key.pk and ApiKey.objects.get(pk=key.pk).revoked_at is not None


@pytest.mark.parametrize("standing", [Standing.DEVELOPER, Standing.AUDITOR])
def test_who_only_reads_sees_no_restore(house: House, standing: Standing) -> None:
    client = signed_in(house, standing)
    _, (entry,) = list_actions.add_acls(ACTOR, house.tenant, [ENTRY])
    list_actions.remove_acl(ACTOR, house.tenant, entry.public_id)
    for path in ("access/history", "access/removed"):
        assert "/restore" not in page(client, path), path
    assert client.post(f"/t/acme/access/entries/{entry.public_id}/restore").status_code == 403
