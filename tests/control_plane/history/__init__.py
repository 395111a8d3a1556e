"""Histories of objects, and restores."""
