"""E-mail addresses of people: signing up with one, and the proof that a person reads its e-mails."""
