"""Which processes of the service run, and which of them holds what only one of them does at a time."""
