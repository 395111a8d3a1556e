"""The demo: a year of flights as the messages of sixteen tenants, from the first send to the proven invoice."""
