"""Django app: changes that the brokers still have to get, one delivery at a time per object. Imports no other app."""
