"""Which addresses may be spoken to without TLS: loopback only, since an API key goes with every call."""

from penstock.contract.errors import ConfigurationError
from penstock.rules.addresses import is_loopback, split_address

SYSTEM_AUTHORITIES = "system"
"""As `ca_file`: the public authorities that the machine trusts."""


def require_protected(address: str, ca_file: str | None) -> None:
    """Raise `ConfigurationError` when a key would be sent in plaintext beyond this machine."""
    try:
        host, _ = split_address(address)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    if ca_file is None and not is_loopback(host):
        raise ConfigurationError(
            f"{address}: not on this machine, and without TLS the API key would be readable on the way;"
            " set ca_file (a file of certificates, or 'system' for the public authorities)"
        )
