"""Stripe's errors as ours, for the modules that know the library `stripe`."""

from collections.abc import Iterator
from contextlib import contextmanager

import stripe

from payments.stripe_shapes import AnsweredFault, Declined, KeyRefused, Refused
from penstock.contract.errors import OutcomeUnknown, Throttled


@contextmanager
def translated() -> Iterator[None]:
    """Raises Stripe's errors as ours. No message has a secret: Stripe masks keys in its own."""
    try:
        yield
    except stripe.CardError as error:
        raise Declined(error.user_message or error.code or "declined") from None
    except stripe.RateLimitError as error:
        raise Throttled(f"Stripe: {error.user_message}") from None
    except stripe.IdempotencyError as error:
        raise AnsweredFault(f"Stripe: {error.user_message}") from None
    except stripe.APIConnectionError:
        raise OutcomeUnknown("Stripe: no answer; it is asked again what became of the call") from None
    except stripe.StripeError as error:
        status = error.http_status or 0
        if status in (409, 429):
            raise Throttled(f"Stripe: {error.user_message}") from None
        if status >= 500:
            raise AnsweredFault(f"Stripe: {status}: {error.user_message}") from None
        if status in (401, 403):
            raise KeyRefused(
                f"Stripe refuses the key: {error.user_message}. Put a key that may do this into the file of "
                "payments.stripe_key_file; it is taken up at once"
            ) from None
        raise Refused(f"Stripe refuses: {error.user_message}. Correct it at Stripe, then try again") from None
