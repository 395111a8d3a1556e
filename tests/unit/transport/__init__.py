"""How addresses are reached, and what is said of those that are not."""
