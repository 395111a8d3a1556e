"""Django app: the console. The server renders its pages with the apps' actions and queries."""
