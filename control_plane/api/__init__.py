"""Django app: the frame of REST v1: who calls, errors, paging, idempotency, limits, health and the document."""
