"""Which addresses may be spoken to without TLS: loopback only, since an API key goes with every call."""

import ipaddress

from penstock.contract.errors import ConfigurationError

SYSTEM_AUTHORITIES = "system"
"""As `ca_file`: the public authorities that the machine trusts."""


def host_of(address: str) -> str:
    """The host part of host:port, without the brackets of an IPv6 address."""
    return address.rpartition(":")[0].strip("[]")


def is_loopback(address: str) -> bool:
    """Whether the address cannot leave this machine. A name other than `localhost` may, whatever it
    resolves to now.
    """
    host = host_of(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_protected(address: str, ca_file: str | None) -> None:
    """Raise `ConfigurationError` when a key would be sent in plaintext beyond this machine."""
    if ca_file is None and not is_loopback(address):
        raise ConfigurationError(
            f"{address}: not on this machine, and without TLS the API key would be readable on the way;"
            " set ca_file (a file of certificates, or 'system' for the public authorities)"
        )
