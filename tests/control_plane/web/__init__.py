"""The console: its pages over Django's test client, and its pure parts."""
