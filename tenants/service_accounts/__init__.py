"""Service accounts: principals that are no people, with keys of their own."""
