"""The control plane's clock: the machine's, or one that is ahead of or behind it by PENSTOCK_CLOCK_OFFSET_MS.

All processes of a service need the same offset; it is for trying out what happens at the end of a month.
"""

import os
from datetime import datetime, timedelta

from django.utils import timezone

from penstock.contract.errors import ConfigurationError

OFFSET_VARIABLE = "PENSTOCK_CLOCK_OFFSET_MS"

_real_now = timezone.now


def set_up() -> None:
    """Let `django.utils.timezone.now`, by which everything here goes, tell the offset clock.

    Raises `ConfigurationError`.
    """
    text = os.environ.get(OFFSET_VARIABLE) or "0"
    try:
        offset = timedelta(milliseconds=int(text))
    except ValueError:
        raise ConfigurationError(f"{OFFSET_VARIABLE}: {text!r} is no whole number of milliseconds") from None

    def now() -> datetime:
        return _real_now() + offset

    timezone.now = _real_now if not offset else now
