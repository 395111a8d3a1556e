"""E-mails of the service: written with the change that they are about, sent by a worker."""
