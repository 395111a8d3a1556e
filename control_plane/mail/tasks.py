"""Celery tasks of the mail app: send what is due."""

from celery import shared_task

from control_plane import looks, schedule
from control_plane.mail import queries, sending

AT_REST_S = 60.0


@shared_task(name="mail.send")
def send() -> None:
    """One round; what failed is due again later."""
    sending.send_due()


schedule.looks_first("mail.send", looks.any_due(queries.all_due), at_rest_s=AT_REST_S)
