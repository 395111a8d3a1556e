"""Tests of webhooks: what is sent where, what becomes of it, and who may say so."""
