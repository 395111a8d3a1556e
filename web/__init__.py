"""Django app: the console."""
