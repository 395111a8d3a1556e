"""Celery tasks of the mail app: send what is due."""

from celery import shared_task

from control_plane.mail import sending


@shared_task(name="mail.send")
def send() -> None:
    """One round; what failed is due again later."""
    sending.send_due()
