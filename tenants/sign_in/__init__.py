"""Signing in: with a password, then with a second factor if the person has one."""
