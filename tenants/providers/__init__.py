"""Signing in with providers of OpenID Connect."""
