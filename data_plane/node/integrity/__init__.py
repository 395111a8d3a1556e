"""Proof that the records are what they were: reading back, reported durability, reads that prove an invoice."""
