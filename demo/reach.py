"""How the demo trusts what it speaks to: the authorities of PENSTOCK_CA_FILE, as any client does."""

import os

from penstock.profiles import CA_FILE


def ca_file() -> str | None:
    """The file of the authorities; None on one machine, where nothing leaves it."""
    return os.environ.get(CA_FILE) or None
