"""Tests of the topics with audit logs."""
