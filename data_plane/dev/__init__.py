"""Shell: a whole service on one machine, started by one command."""
