"""Migrations of the billing app."""
