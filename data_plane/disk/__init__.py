"""Disk port: files as brokers use them; adapters live in broker and testkit."""
