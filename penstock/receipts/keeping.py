"""How a producer of either surface comes by the keeper of its receipts."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from penstock.client.settings import ProducerSettings

if TYPE_CHECKING:
    from penstock.receipts.keeper import ReceiptsKeeper


def keeper_of(runtime: object, settings: ProducerSettings) -> ReceiptsKeeper | None:
    """The keeper that these settings ask for, which ends at the latest with its client's runtime. Raises
    `ConfigurationError`."""
    if settings.receipts is None:
        return None
    from penstock.receipts.keeper import ReceiptsKeeper

    keeper = ReceiptsKeeper(settings.receipts, settings.acks)
    left = weakref.finalize(runtime, keeper.begin_close)
    left.atexit = False  # the keeper's own exit waits for the disk
    return keeper
