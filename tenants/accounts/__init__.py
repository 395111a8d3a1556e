"""A person's own account: the password, and where they have signed in."""
