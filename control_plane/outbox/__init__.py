"""Django app: what must still be told to the brokers, one delivery at a time per object. Imports no other app."""
