"""Brings Stripe to what a receivable says, and what Stripe says of money to the receivable: one delivery of the outbox.

A delivery that does not get to its end comes again after a pause: short where Stripe did not answer, long where it
refuses, and then the receivable says why. So the outbox row is done in any case.
"""

import logging
from collections.abc import Callable

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from control_plane.outbox.registry import Delivered
from payments import queries, sending, tax_reporting
from payments.models import Receivable
from payments.sending import KIND_RECEIVABLE
from payments.stripe_adapter import Gateway, configured
from payments.stripe_delivery import ChangedThere, Collection, Uncollected
from payments.stripe_shapes import AnsweredFault, KeyRefused, Refused
from penstock.contract.errors import ConfigurationError, PenstockError

__all__ = ["KIND_RECEIVABLE", "Collector"]
_log = logging.getLogger(__name__)


class Collector:
    """The outbox's deliverer of receivables."""

    def __init__(self, gateway: Callable[[], Gateway | None] = configured) -> None:
        self._gateway = gateway

    def deliver(self, object_id: str, generation: int) -> Delivered:
        """It raises nothing that it expects: what did not get to its end is marked to come again."""
        row = Receivable.objects.select_related("tenant", "invoice__price_book", "carried_by").get(
            public_id=object_id
        )
        try:
            gateway = self._gateway()
            if gateway is not None:
                self._collect(gateway, row)
            else:
                # It was turned off meanwhile. The receivable waits until it is on.
                Receivable.objects.filter(pk=row.pk, unsent_since=None).update(unsent_since=timezone.now())
        except AnsweredFault as fault:
            _take_another_key(row)
            self._later(row, str(fault), refused=False)
        except Uncollected as refused:
            # What was sent so far is known, and someone may correct it at Stripe: an old key would repeat it.
            _take_another_key(row)
            changed_there = isinstance(refused, ChangedThere)
            self._later(
                row, refused.problem, refused=True, problem=refused.problem, changed_there=changed_there
            )
        except Refused as refused:
            # Stripe would repeat a refusal for a day, also of what was since corrected there.
            _take_another_key(row)
            self._later(row, refused.message, refused=True, problem=refused.message)
        except ConfigurationError as error:
            self._later(row, error.message, refused=True, problem=error.message)
        except KeyRefused as refused:
            self._later(row, refused.message, refused=False, problem=refused.message)
        except PenstockError as error:
            self._later(row, error.message, refused=False)
        else:
            Receivable.objects.filter(pk=row.pk).update(
                failures=0, refused=False, changed_there=False, asked_again=False
            )
        return Delivered(generation=max(generation, row.generation))

    def delivered(self, object_id: str, done: Delivered) -> None:
        """The next receivable has its turn."""
        transaction.on_commit(sending.send_next, robust=True)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        pass  # a fault of the service; the outbox row has it

    def _collect(self, gateway: Gateway, row: Receivable) -> None:
        """The tax is reported also of what Stripe cannot collect."""
        try:
            Collection(gateway, row).run()
        except Uncollected:
            _report(gateway, row)
            raise
        _report(gateway, row)

    def _later(
        self, row: Receivable, text: str, *, refused: bool, problem: str = "", changed_there: bool = False
    ) -> None:
        fresh = sending.later(
            row.public_id, timezone.now(), refused=refused, problem=problem, changed_there=changed_there
        )
        if fresh:
            _log.error(
                "an invoice is not collected",
                extra={"invoice": row.invoice.public_id, "problem": problem},
            )
        elif not problem:
            _log.warning("Stripe was not reached", extra={"invoice": row.invoice.public_id, "error": text})


def _take_another_key(row: Receivable) -> None:
    """What the keys so far did is known, and a delivery looks at it before it acts. After a call without an answer the
    same keys are used again.
    """
    Receivable.objects.filter(pk=row.pk).update(key_version=F("key_version") + 1)


def _report(gateway: Gateway, row: Receivable) -> None:
    now = Receivable.objects.select_related("tenant", "invoice__price_book").get(pk=row.pk)
    for one in queries.with_group(now):
        tax_reporting.report(gateway, one)
