"""Views of the console. Each reads through queries, writes through actions, and renders a page."""
