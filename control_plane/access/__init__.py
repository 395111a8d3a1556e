"""Django app: what an API key may do, bound to a part of its tenant's topics."""
