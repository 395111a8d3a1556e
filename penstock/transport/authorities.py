"""The authorities whose certificates are trusted: `ca_file` of gRPC and of REST alike."""

import codecs
import os
import ssl

from penstock.contract.errors import ConfigurationError
from penstock.transport.address import SYSTEM_AUTHORITIES


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Trusts the authorities of the file; None or `system` = the public ones. Raises `ConfigurationError`."""
    if ca_file is None or ca_file == SYSTEM_AUTHORITIES:
        return ssl.create_default_context()
    content = _content(ca_file)
    try:
        # As text: what is no certificate between them may be of any letters. Never empty: that means the public ones.
        return ssl.create_default_context(cadata=content.decode("ascii", "ignore") + "\n")
    except (ssl.SSLError, ValueError):
        raise ConfigurationError(
            f"ca_file: {ca_file}: holds no certificate that can be read; PEM required,"
            " which begins with -----BEGIN CERTIFICATE-----"
        ) from None


def certificates(ca_file: str) -> bytes:
    """The content of the file, which `tls_context` takes. Raises as it does."""
    tls_context(ca_file)
    return _content(ca_file)


def _content(ca_file: str) -> bytes:
    """Without the mark that some editors put before the first line, which would hide it."""
    try:
        with open(os.path.expanduser(ca_file), "rb") as file:
            return file.read().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise ConfigurationError(f"ca_file: {ca_file}: {error.strerror}") from error
