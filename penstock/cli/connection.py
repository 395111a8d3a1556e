"""Which cluster a command talks to."""

import logging
from typing import TYPE_CHECKING

from penstock.cli.invocation import current
from penstock.profiles import profile_in_use

if TYPE_CHECKING:
    from penstock import Client


def chosen_profile() -> str | None:
    """The profile that commands read, as the SDK would; None when the environment alone counts. Raises
    `ConfigurationError`.
    """
    return profile_in_use(current().profile)[0]


def connect(zone: str | None = None) -> "Client":
    """A client for this invocation. It opens no connection before its first use."""
    from penstock import Client

    if current().json:
        logging.getLogger("penstock").addHandler(logging.NullHandler())  # standard error holds JSON alone
    return Client(profile=current().profile, zone=zone)
