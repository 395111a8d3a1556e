"""The end of tenants: closed, reopened, billed first, purged; over REST and pages, and who may."""

from datetime import datetime, timedelta

import pytest
from django.apps import apps
from django.test import Client
from django.utils import timezone

from billing import period_actions, tax_actions
from billing.models import Cut, Invoice
from control_plane.access.models import KeyBinding
from control_plane.access_reports.models import ReportMailRefusal
from control_plane.audit.actor import Actor
from control_plane.audit.models import AuditEntry
from control_plane.audit_topics import actions as audit_topics
from control_plane.audit_topics.models import AuditTopic
from control_plane.mail.models import Mail
from control_plane.outbox import in_request
from control_plane.outbox.registry import Delivered
from control_plane.placement import cell_actions
from control_plane.placement.models import Cell
from control_plane.reconciliation import forgetting, purging
from control_plane.topics import actions as topics
from control_plane.topics import queries as topic_queries
from control_plane.topics.models import Topic
from control_plane.webhooks import actions as webhooks
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT
from quotas.models import AccountLimits, Budget, PartitionChanges, StorageWarning
from tenants import actions as tenants
from tenants import observed, queries
from tenants.closing import actions
from tenants.models import ApiKey, Membership, ServiceAccount, Tenant
from tenants.roles import Standing
from tests.control_plane.web.filling import fill
from tests.control_plane.world import ACTOR, House, call, make_house

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    # A month's first moments are no period of their own.
    Tenant.objects.update(created_at=timezone.now() - timedelta(hours=1))
    return made


def now(house: House) -> Tenant:
    return Tenant.objects.get(pk=house.tenant.pk)


def delivered(house: House) -> None:
    """The brokers have the tenant as it is now."""
    row = now(house)
    observed.note_delivered(Tenant, row.public_id, Delivered(generation=row.generation, revision=1))


def grace_is_over(house: House) -> None:
    """As if it had been closed half an hour ago, billed a little later, and its time had just ended."""
    at = timezone.now()
    Tenant.objects.filter(pk=house.tenant.pk).update(
        closed_at=at - timedelta(minutes=30), purge_at=at - timedelta(seconds=1)
    )
    Cut.objects.filter(tenant=house.tenant).update(period_end=at - timedelta(minutes=20))


def issue_all(house: House) -> None:
    issued = {"status": Invoice.Status.ISSUED, "issued_at": timezone.now(), "total_micro": 0, "gaps": []}
    Invoice.objects.filter(tenant=house.tenant).update(**issued)


def audited(house: House) -> list[str]:
    rows = AuditEntry.objects.filter(tenant=house.tenant.public_id, action__startswith="tenant.")
    return [entry.action for entry in rows.order_by("sequence")]


def owner(house: House) -> Client:
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.OWNER]
    return client


# -- closing and reopening ------------------------------------------------------------------------------


def test_a_closed_tenants_keys_are_refused_and_accepted_again_once_it_is_reopened(house: House) -> None:
    key = house.credentials[Standing.KEY]
    by_owner = house.credentials[Standing.OWNER]
    path = f"/v1/tenants/{house.tenant.public_id}"
    assert call("GET", "/v1/topics", token=key).status == 200
    closed = call("DELETE", path, token=by_owner)
    assert closed.status == 202 and closed.body["closed_at"] and closed.body["purge_at"]
    assert now(house).stopped
    refused = call("GET", "/v1/topics", token=key)
    assert refused.status == 401 and "is closed" in refused.body["detail"]
    assert call("DELETE", path, token=by_owner).body["purge_at"] == closed.body["purge_at"], (
        "again changes nothing"
    )
    assert call("GET", "/v1/topics", token=by_owner).status == 200, "people still see what is there"
    reopened = call("POST", f"{path}/reopen", token=by_owner)
    assert reopened.body["closed_at"] is None and reopened.body["purge_at"] is None
    assert call("GET", "/v1/topics", token=key).status == 200
    assert audited(house)[-2:] == ["tenant.close", "tenant.reopen"]
    assert Mail.objects.filter(to="owner@acme.example", subject="acme was closed").count() == 1


def test_nothing_new_is_made_in_a_closed_tenant_until_it_is_reopened(house: House) -> None:
    by_owner, path = house.credentials[Standing.OWNER], f"/v1/tenants/{house.tenant.public_id}"
    topics.create_topic(ACTOR, house.tenant, name="orders", partitions=1, settings={})
    gone = Topic.objects.create(
        public_id="top_gone", tenant=house.tenant, name="gone", topic_id="f" * 32, partitions=1, settings={},
        on_brokers=True, binned_at=timezone.now(), purge_at=timezone.now() + timedelta(days=1),
    )  # fmt: skip
    call("DELETE", path, token=by_owner)
    asked = [
        ("/v1/topics", {"name": "late"}),
        ("/v1/topics:batch", {"topics": [{"name": "later"}]}),
        (f"/v1/bin/topics/{gone.public_id}/restore", {}),
        ("/v1/keys", {"name": "late"}),
        ("/v1/invitations", {"email": "late@acme.example", "role": "owner"}),
    ]
    for where, body in asked:
        refused = call("POST", where, body, token=by_owner)
        assert "acme is closed; reopen it first" in str(refused.body), (where, refused.body)
    assert [row.name for row in topic_queries.topics(now(house))] == ["orders"]
    call("POST", f"{path}/reopen", token=by_owner)
    assert call("POST", "/v1/keys", {"name": "again"}, token=by_owner).status in (201, 202)


def test_a_closed_tenant_that_is_suspended_too_stays_refused_when_it_is_reopened(house: House) -> None:
    actions.close(ACTOR, house.tenant)
    tenants.set_suspended(ACTOR, house.tenant, True)
    assert actions.reopen(ACTOR, house.tenant).stopped


def test_a_protected_tenant_is_not_closed(house: House) -> None:
    token, path = house.credentials[Standing.OWNER], f"/v1/tenants/{house.tenant.public_id}"
    assert call("PATCH", path, {"deletion_protection": True}, token=token).body["deletion_protection"] is True
    for standing in (Standing.OWNER, Standing.OPERATOR):
        refused = call("DELETE", path, token=house.credentials[standing])
        assert refused.status == 400 and "is protected" in refused.body["detail"]
    call("PATCH", path, {"deletion_protection": False}, token=token)
    assert call("DELETE", path, token=token).status == 202
    assert audited(house)[-3:] == ["tenant.protect", "tenant.unprotect", "tenant.close"]


def test_a_tenant_that_was_changed_meanwhile_is_not_closed(house: House) -> None:
    token, path = house.credentials[Standing.OWNER], f"/v1/tenants/{house.tenant.public_id}"
    seen = call("GET", path, token=token).headers["ETag"]
    call("PATCH", path, {"deletion_protection": True}, token=token)
    assert call("DELETE", path, token=token, If_Match=seen).status == 412


def test_the_services_own_tenant_stays() -> None:
    system = tenants.create_tenant(ACTOR, name="system", public_id=SYSTEM_TENANT)
    for act in (actions.close, lambda actor, tenant: actions.set_protected(actor, tenant, True)):
        with pytest.raises(InvalidRequest, match="the service's own tenant"):
            act(ACTOR, system)


def test_in_the_console_the_name_is_typed_and_others_than_owners_may_not(house: House) -> None:
    client = owner(house)
    assert "Close the tenant" in client.get("/t/acme").content.decode()
    assert client.post("/t/acme/close", {"name": "other"}).status_code == 422
    assert client.post("/t/acme/protection", {"protected": "yes"}).status_code == 302
    assert client.post("/t/acme/close", {"name": "acme"}).status_code == 422
    assert client.post("/t/acme/protection", {"protected": "no"}).status_code == 302
    assert client.post("/t/acme/close", {"name": "acme"})["Location"] == "/t/acme"
    assert "This tenant is closed" in client.get("/t/acme").content.decode()
    assert "Reopen acme" in client.get("/t/acme/close").content.decode()
    for standing in (Standing.ADMIN, Standing.DEVELOPER, Standing.BILLING, Standing.AUDITOR):
        other = Client()
        other.cookies["penstock"] = house.credentials[standing]
        assert other.post("/t/acme/reopen").status_code == 403
        assert "Reopen" not in other.get("/t/acme").content.decode()
    assert client.post("/t/acme/reopen")["Location"] == "/t/acme"
    assert not now(house).stopped


# -- billing first, then purging ------------------------------------------------------------------------


def test_closing_ends_no_period_and_the_last_one_ends_when_the_grace_is_over(house: House) -> None:
    actions.close(ACTOR, house.tenant)
    delivered(house)
    purging.drive_closed()
    assert not Cut.objects.exists(), "reopened it would begin with all that is free again"
    grace_is_over(house)
    purging.drive_closed()
    purging.drive_closed()
    (cut,) = Cut.objects.all()
    purge_at = now(house).purge_at
    assert purge_at is not None and cut.period_end >= purge_at.replace(microsecond=0)


def test_a_tenant_is_purged_after_its_grace_and_its_last_invoice(house: House) -> None:
    topics.create_topic(ACTOR, house.tenant, name="orders", partitions=1, settings={})
    binned = topics.create_topic(ACTOR, house.tenant, name="before", partitions=1, settings={})
    Topic.objects.filter(pk=binned.pk).update(
        on_brokers=True, binned_at=timezone.now(), purge_at=timezone.now() + timedelta(days=90)
    )
    address: dict[str, str | bool] = {
        **dict.fromkeys(tax_actions.FIELDS, ""),
        "no_mail": False,
        "country": "DE",
        "postal_code": "10115",
    }
    tax_actions.set_address(ACTOR, house.tenant, now=timezone.now(), **address)
    actions.close(ACTOR, house.tenant)
    delivered(house)
    assert purging.drive_closed() == 0 and topic_queries.topics(house.tenant).exists(), "within its grace"
    grace_is_over(house)
    assert purging.drive_closed() == 0, "what was stored meanwhile is billed first"
    assert Cut.objects.count() == 1 and topic_queries.topics(house.tenant).exists()
    with pytest.raises(InvalidRequest, match="the time to reopen"):
        actions.reopen(ACTOR, house.tenant)
    issue_all(house)
    assert purging.drive_closed() == 1
    row = now(house)
    assert row.purged_at is not None and row.stopped and row.name == row.public_id
    assert tax_actions.address_of(row) is None
    assert AuditEntry.objects.filter(action="tax_address.remove", tenant=row.public_id).count() == 1
    assert not Topic.objects.filter(deleted_at=None).exists(), "its recycle bin is empty too"
    assert not topic_queries.topics(row).exists() and not Membership.objects.filter(tenant=row).exists()
    assert not ApiKey.objects.filter(tenant=row, revoked_at=None).exists()
    assert owner(house).get("/t/acme").status_code == 404
    assert tenants.create_tenant(ACTOR, name="acme").name == "acme", "its name is free"
    assert Invoice.objects.filter(tenant=row).count() == 1 and audited(house)[-1] == "tenant.purge"
    assert purging.drive_closed() == 0 and Cut.objects.filter(tenant=row).count() == 1


STAYS = {
    "proves or prices what was billed": {
        "billing.BillingAccount", "billing.BillingEntry", "billing.CreditNote", "billing.CouponRedemption",
        "billing.Cut", "billing.CutUsage", "billing.Invoice", "billing.LatencyDay", "billing.MeasuredDay",
        "billing.PartitionWaiver", "billing.PrincipalDay", "billing.Seal", "billing.ServiceExclusion",
        "billing.ServiceLevelReport", "billing.SlaMinute", "billing.SlaSlow", "billing.SlaWindow",
        "billing.TaxAddress", "billing.TaxCalculation", "billing.TenantTerms", "billing.UsageDay",
        "quotas.PlanChange", "quotas.Quota", "tenants.Closing",
    },
    "is paid, and by whom": {
        "payments.CustomerKey", "payments.FormerPayer", "payments.Payment", "payments.Receivable",
        "payments.StripeCustomer", "payments.TaxReport",
    },
    "is named by usage and by the audit log, ended or deleted": {
        "tenants.ApiKey", "tenants.Invitation", "tenants.ServiceAccount", "topics.Topic",
    },
    "is the audit log": {"audit.AuditEntry", "audit.AuditHead", "audit.AuditTally"},
    "tells the brokers": {"access.TenantAccessList", "outbox.Delivery"},
    "is the service's own plan of brokers": {"placement.Move", "placement.PlacementPlan"},
    "goes within the month, by a task of its own": {"access_reports.AccessReport"},
}  # fmt: skip
GOES = {
    "access.AclEntry", "access.KeyBinding", "access.PrincipalGroup", "access_reports.ReportMailRefusal",
    "audit_topics.AuditTopic", "billing.CostTag", "placement.CellTenant", "quotas.AccountLimits", "quotas.Budget",
    "quotas.PartitionChanges", "quotas.StorageWarning", "tenants.Membership", "webhooks.Webhook",
}  # fmt: skip


def rows_of(tenant: Tenant) -> dict[str, int]:
    """Rows by model, of every model that names a tenant."""
    found = {}
    for model in apps.get_models():
        of = {field.name: field for field in model._meta.get_fields() if field.concrete}
        if model is KeyBinding:
            found[model._meta.label] = model._default_manager.filter(key__tenant=tenant).count()
        elif "tenant" in of:
            named = tenant if of["tenant"].is_relation else tenant.public_id
            found[model._meta.label] = model._default_manager.filter(tenant=named).count()
    return found


def test_a_purge_leaves_what_proves_invoices_and_nothing_else(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(house.tenant, Membership.objects.filter(tenant=house.tenant).earliest("pk").person, range(1))
    tenant, audit_key = now(house), ApiKey.objects.filter(tenant=house.tenant).earliest("pk")
    StorageWarning.objects.create(tenant=tenant, percent=80, warned_at=timezone.now())
    PartitionChanges.objects.update_or_create(
        tenant=tenant, defaults={"began_at": timezone.now(), "changes": 1}
    )
    ReportMailRefusal.objects.create(tenant=tenant)
    AuditTopic.objects.create(tenant=tenant, key=audit_key, due_at=timezone.now())
    for name, ended_at in (("works", None), ("ended before", timezone.now())):
        account = ServiceAccount.objects.create(
            tenant=tenant, public_id=f"sa_{name[0]}", name=name, ended_at=ended_at
        )
        Budget.objects.create(tenant=tenant, account=account, name=name, amount=1, thresholds=[])
    AccountLimits.objects.create(tenant=tenant, account=None, requests_per_s=1)  # of each account
    cell = Cell.objects.create(public_id="cell_1", name="left", brokers=[1])
    cell_actions.assign(tenant.public_id, cell)
    before = rows_of(tenant)
    assert before.keys() == GOES.union(*STAYS.values()), (
        "say of each model that names a tenant what a purge does"
    )
    assert not {label for label in GOES if not before[label]}, "nothing shows that these rows go"
    actions.close(ACTOR, tenant)
    delivered(house)
    Cut.objects.filter(tenant=tenant).update(period_end=timezone.now() + timedelta(days=1))
    issue_all(house)
    Tenant.objects.filter(pk=tenant.pk).update(purge_at=timezone.now() - timedelta(seconds=1))
    webhooks.delete_all(ACTOR, tenant)
    audit_topics.forget(tenant)
    whole = rows_of(tenant)
    with monkeypatch.context() as broken, pytest.raises(ZeroDivisionError):
        broken.setattr(cell_actions, "forget", lambda _: 1 / 0)
        forgetting.forget(ACTOR, now(house))
    assert rows_of(tenant) == whole, "all of it, or nothing"
    for _ in range(2):
        forgetting.forget(ACTOR, now(house))
    actions.purge(ACTOR, now(house))
    after = rows_of(tenant)
    assert not {label: after[label] for label in GOES if after[label]}
    assert not ServiceAccount.objects.filter(tenant=tenant, ended_at=None).exists()
    assert all(after[label] >= before[label] for label in STAYS["proves or prices what was billed"])
    entries = AuditEntry.objects.filter(tenant=tenant.public_id, action="access_list.clear")
    assert entries.count() == 1, "what it had is in the audit log once, and the brokers hear of it"
    cell_actions.delete(ACTOR, cell)


def test_an_invoice_that_waits_keeps_a_tenant_from_being_purged(house: House) -> None:
    actions.close(ACTOR, house.tenant)
    delivered(house)
    grace_is_over(house)
    for _ in range(3):
        assert purging.drive_closed() == 0
    with pytest.raises(InvalidRequest, match="can be reopened until"):
        Tenant.objects.filter(pk=house.tenant.pk).update(purge_at=timezone.now() + timedelta(days=1))
        actions.purge(ACTOR, house.tenant)


def test_a_fault_with_one_tenant_does_not_keep_others(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_house("other")
    Tenant.objects.update(created_at=timezone.now() - timedelta(hours=1))
    for one in (house, other):
        actions.close(ACTOR, one.tenant)
        delivered(one)
        grace_is_over(one)
    close_period = period_actions.close_period

    def fail_for_acme(actor: Actor, tenant: str, *, end: datetime) -> Cut:
        if tenant == house.tenant.public_id:
            raise RuntimeError("a fault")
        return close_period(actor, tenant, end=end)

    monkeypatch.setattr(period_actions, "close_period", fail_for_acme)
    purging.drive_closed()
    assert [cut.tenant for cut in Cut.objects.all()] == [other.tenant]


def test_a_closed_tenant_is_not_in_the_way_of_its_persons_calls_that_name_none(house: House) -> None:
    owner = Membership.objects.get(tenant=house.tenant, role="owner").person
    token = house.credentials[Standing.OWNER]
    other = tenants.create_tenant(ACTOR, name="other", owner=owner)
    assert call("GET", "/v1/topics", token=token).status == 400, "two are open: which is meant?"
    actions.close(ACTOR, house.tenant)
    assert call("GET", "/v1/topics", token=token).status == 200
    assert queries.meant(queries.belongings(owner))[0].tenant == other, (
        "the console's first page is of the open one"
    )
    assert call("GET", "/v1/quotas", token=token).body["tenant"] == other.public_id
    assert (
        call("GET", "/v1/quotas", token=token, tenant=house.tenant).body["tenant"] == house.tenant.public_id
    )
    actions.close(ACTOR, other)
    assert "2 tenants" in call("GET", "/v1/topics", token=token).body["detail"]
