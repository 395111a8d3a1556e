"""Upgrades: the release before beside this one, forward and back."""
