"""Proving an invoice from the log: evidence in, offset ranges read with their stamps, every number counted again."""
