"""Views of the console: each reads through queries, writes through actions, and renders a page."""
