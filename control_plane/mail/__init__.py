"""E-mails of the service: written with the change that they tell of, sent by a worker."""
