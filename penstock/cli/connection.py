"""Which cluster a command talks to."""

import logging
import os
from typing import TYPE_CHECKING

from penstock.cli.invocation import current
from penstock.contract.errors import ConfigurationError
from penstock.profiles import BOOTSTRAP, PROFILE, read_profile

if TYPE_CHECKING:
    from penstock import Client

_FALLBACK = "dev"


def chosen_profile() -> str | None:
    """The profile to use: `--profile`; None when the environment or a profile `default` says enough; else
    `dev`.

    `dev` is what `penstock dev up` writes, so that the first commands of a newcomer need no option.
    """
    named = current().profile
    if named is not None or os.environ.get(PROFILE) or os.environ.get(BOOTSTRAP) or read_profile(None):
        return named
    try:
        read_profile(_FALLBACK)
    except ConfigurationError:
        return None
    return _FALLBACK


def connect(zone: str | None = None) -> "Client":
    """A client for this invocation. It opens no connection before its first use."""
    from penstock import Client

    if current().json:
        logging.getLogger("penstock").addHandler(logging.NullHandler())  # standard error holds JSON alone
    return Client(profile=chosen_profile(), zone=zone)
