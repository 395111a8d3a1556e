"""The whole service on one machine, started by one command."""
