"""Proof that the records are what they were: reading back, durability told, reads that prove an invoice."""
