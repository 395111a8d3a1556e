"""What carries wake-ups may be away; a request is not held up by that, and its change is not lost."""

import time

import pytest
from celery import Celery
from django.db import transaction

from control_plane.celery import transport
from control_plane.outbox import actions, queries, wake_ups
from control_plane.outbox.models import Delivery
from penstock.contract.errors import ConfigurationError

AWAY = "redis://127.0.0.1:9/0"
DELAY_S_MAX = 20.0


@pytest.fixture
def away() -> Celery:
    app = Celery("away")
    app.conf.update(**transport(AWAY))
    return app


@pytest.mark.django_db(transaction=True)
def test_a_change_is_committed_and_found_when_its_wake_up_cannot_be_sent(
    away: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake_ups, "app", away)
    began = time.monotonic()
    with transaction.atomic():
        actions.enqueue(kind="parcel", object_id="par_1", tenant="tn_1", generation=1)
    assert time.monotonic() - began < DELAY_S_MAX
    assert queries.due(Delivery.objects.get().created_at, 10) == [("parcel", "par_1")]


def test_a_transport_that_is_none_is_refused_without_showing_its_password() -> None:
    with pytest.raises(ConfigurationError, match="celery_broker_url: scheme 'amqp'") as refused:
        transport("amqp://user:hidden@127.0.0.1/")
    assert "hidden" not in str(refused.value)
