"""Owners get an e-mail when their tenant keeps 80 % and 100 % of its storage limit, once each time."""

import pytest

from control_plane.brokers import client
from control_plane.brokers.view import KeyUseSeen, NearStorageSeen, StorageUseSeen
from control_plane.mail.models import Mail
from control_plane.reconciliation.tasks import note_key_use
from penstock.rules.budgets import STOP_GROWTH
from quotas import storage_warnings
from quotas.models import Budget, StorageWarning
from tenants.models import Tenant
from tests.control_plane.world import make_house

pytestmark = pytest.mark.django_db

GB = 10**9


@pytest.fixture
def tenant() -> Tenant:
    return make_house("acme").tenant


def says(tenant: Tenant, *percents: int, whole: bool = True) -> list[str]:
    """The controller says so much, round after round; the subjects of the e-mails that were written."""
    before = set(Mail.objects.values_list("pk", flat=True))
    for percent in percents:
        use = StorageUseSeen(tenant=tenant.public_id, used_bytes=percent * GB, limit=100 * GB)
        uses = (use,) if percent >= 75 else ()
        storage_warnings.note(NearStorageSeen(uses=uses, whole=whole))
    return list(Mail.objects.exclude(pk__in=before).order_by("pk").values_list("subject", flat=True))


NEAR = "acme keeps {} % of the storage it is allowed"
FULL = "acme has no storage left: new messages are refused"


def test_each_mark_is_written_about_once(tenant: Tenant) -> None:
    assert says(tenant, 75, 79) == []
    assert says(tenant, 81, 85, 78, 99) == [NEAR.format(81)]
    assert says(tenant, 100, 103, 96, 101, 85) == [FULL]
    assert set(Mail.objects.values_list("to", flat=True)) == {"owner@acme.example"}


def test_who_is_full_at_once_gets_one_email(tenant: Tenant) -> None:
    assert says(tenant, 101, 90) == [FULL]


def test_below_75_percent_the_next_crossing_is_written_about_again(tenant: Tenant) -> None:
    assert says(tenant, 85, 74, 85) == [NEAR.format(85)] * 2
    assert says(tenant, 100, 10, 100) == [FULL] * 2


def test_what_a_new_controller_does_not_know_takes_no_warning_back(tenant: Tenant) -> None:
    says(tenant, 85)
    assert says(tenant, 0, whole=False) == []
    storage_warnings.note(None)
    assert says(tenant, 85) == []
    assert says(tenant, 100, whole=False) == [FULL], "it knows too little and never too much"


def test_a_limit_that_a_ceiling_of_cost_has_lowered_is_said_to_be_one(tenant: Tenant) -> None:
    row = Budget.objects.create(
        tenant=tenant, name="most", amount=1, thresholds=[], policy=STOP_GROWTH, kept_bytes_max=100 * GB
    )
    assert says(tenant, 95) == [], "what is kept is near it from the beginning"
    assert says(tenant, 100) == [FULL]
    text = " ".join(Mail.objects.latest("pk").text.split())
    assert "a ceiling of cost has stopped growth" in text and "ask for a higher limit" not in text
    row.delete()
    assert says(tenant, 70, 95, 100) == [NEAR.format(95), FULL]
    assert "ask for a higher limit" in " ".join(Mail.objects.latest("pk").text.split())


def test_closed_and_unknown_tenants_are_not_written_to(tenant: Tenant) -> None:
    Tenant.objects.filter(pk=tenant.pk).update(closed_at=tenant.created_at)
    assert says(tenant, 100) == []
    stranger = StorageUseSeen(tenant="tn_gone", used_bytes=2, limit=1)
    assert storage_warnings.note(NearStorageSeen(uses=(stranger,), whole=True)) == 0
    assert not StorageWarning.objects.exists()


def test_the_emails_say_what_is_kept_and_what_to_do(tenant: Tenant) -> None:
    says(tenant, 81)
    says(tenant, 103)
    near, full = Mail.objects.order_by("pk").values_list("text", flat=True)
    near, full = " ".join(near.split()), " ".join(full.split())
    assert "keep 81.0 GB, 81 % of the 100.0 GB that its limit storage_bytes_max allows" in near
    assert "keep 103.0 GB, and its limit storage_bytes_max is 100.0 GB" in full
    assert all("/t/acme/topics" in text and "You own acme" in text for text in (near, full))


@pytest.mark.parametrize(
    "of_bytes, text",
    [(0, "0 bytes"), (999, "999 bytes"), (1_000, "1.0 kB"), (999_960, "1.0 MB"), (5 * 10**15, "5,000.0 TB")],
)
def test_sizes_are_read_by_people(of_bytes: int, text: str) -> None:
    assert storage_warnings.size(of_bytes) == text


def test_the_round_of_each_minute_writes_them(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    use = StorageUseSeen(tenant=tenant.public_id, used_bytes=9, limit=10)
    seen = KeyUseSeen(
        ages_s={},
        hashes={},
        peppers={},
        peppers_used=frozenset(),
        near_storage=NearStorageSeen(uses=(use,), whole=True),
    )
    monkeypatch.setattr(client, "key_use", lambda within_s, version: seen)
    note_key_use()
    note_key_use()
    assert Mail.objects.get().subject == NEAR.format(90)
