"""Django app: who decided or changed what, in one hash chain a tenant. Imports no other app."""
