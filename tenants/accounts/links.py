"""The link by which a person chooses a new password."""

from urllib.parse import quote

from control_plane import config


def reset_link(token: str) -> str:
    """The address of the console's page for it."""
    return f"{config.current().public_url.rstrip('/')}/reset/{quote(token)}"
