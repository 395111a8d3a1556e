"""What the e-mail of a webhook that was switched off says. Pure but for the public URL of the configuration."""

from urllib.parse import quote

from control_plane import config
from control_plane.mail.letter import Letter


def switched_off(tenant: str, name: str, public_id: str, why: str) -> Letter:
    """To owners and admins of the tenant. `why` is a sentence without its end."""
    url = f"{config.current().public_url.rstrip('/')}/t/{quote(tenant)}/webhooks/{quote(public_id)}"
    return Letter(
        subject=f"The webhook {name} is switched off",
        paragraphs=(
            f"The webhook {name} of {tenant} gets no more events: {why}.",
            "No event is lost. Repair the endpoint and resume the webhook: it goes on with the first event that the "
            "endpoint did not take.",
        ),
        link=url,
        link_says="Open the webhook",
        after=("You get this e-mail because you are an owner or admin of the tenant.",),
    )
