"""Migrations of the app."""
