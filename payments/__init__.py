"""Collects what issued invoices ask for: receivables, payments, dunning, and Stripe behind one module."""
