"""When API keys were last used."""
