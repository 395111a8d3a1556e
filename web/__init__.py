"""Django app: the console, pages that the server renders over the apps' actions and queries."""
