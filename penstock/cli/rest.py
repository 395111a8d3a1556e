"""The way of commands to the control plane."""

from penstock.admin.blocking import Admin
from penstock.cli.connection import chosen_profile
from penstock.client.settings import ConnectionSettings
from penstock.profiles import connection_settings
from penstock.rest.client import RestClient


def settings() -> ConnectionSettings:
    """Addresses and key of this invocation. Raises `ConfigurationError`."""
    return connection_settings(profile=chosen_profile())


def rest_client(chosen: ConnectionSettings | None = None) -> RestClient:
    """A client with the invocation's key. It opens no connection before its first call."""
    chosen = settings() if chosen is None else chosen
    return RestClient(chosen.api_url, chosen.api_key, chosen.ca_file)


def admin_client(chosen: ConnectionSettings | None = None) -> Admin:
    """The SDK's calls to the control plane with the invocation's key. Close it."""
    return Admin(rest_client(chosen))
