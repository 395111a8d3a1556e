"""How this process reaches the brokers' client listener with the key of a tenant."""

from control_plane import config
from penstock.client.settings import ConnectionSettings
from penstock.profiles import connection_settings


def connection_with(key: str) -> ConnectionSettings:
    """Raises `ConfigurationError`."""
    brokers = config.current().brokers
    ca_file = None if brokers.ca_file is None else str(brokers.ca_file)
    return connection_settings(bootstrap=brokers.bootstrap, api_key=key, ca_file=ca_file)
