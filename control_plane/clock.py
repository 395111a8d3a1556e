"""The control plane's clock: the machine's clock, moved by PENSTOCK_CLOCK_OFFSET_MS.

All processes of a service need the same offset. It is for trying out the end of a month.
"""

import os
from datetime import datetime, timedelta

from django.utils import timezone

from penstock.contract.errors import ConfigurationError

OFFSET_VARIABLE = "PENSTOCK_CLOCK_OFFSET_MS"

_real_now = timezone.now


def set_up() -> None:
    """Let `django.utils.timezone.now`, which all code of the control plane uses, return the moved time.

    Raises `ConfigurationError`.
    """
    text = os.environ.get(OFFSET_VARIABLE) or "0"
    try:
        offset = timedelta(milliseconds=int(text))
    except ValueError:
        raise ConfigurationError(
            f"{OFFSET_VARIABLE}: {text!r} is not a whole number of milliseconds"
        ) from None

    def now() -> datetime:
        return _real_now() + offset

    timezone.now = _real_now if not offset else now
