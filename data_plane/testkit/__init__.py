"""Shell: seeded simulation of whole clusters."""
