"""Celery tasks of the mail app: send what is due."""

from celery import shared_task

from control_plane import schedule
from control_plane.mail import queries, sending

AT_REST_S = 60.0


@shared_task(name="mail.send")
def send() -> None:
    """One round; what failed is due again later."""
    sending.send_due()


schedule.looks_first("mail.send", lambda: queries.due(1).exists(), at_rest_s=AT_REST_S)
