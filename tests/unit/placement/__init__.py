"""Unit tests of placement."""
