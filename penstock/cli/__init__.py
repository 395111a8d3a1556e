"""The command line `penstock`: what a tenant does by hand, and the door to the server's own commands."""
