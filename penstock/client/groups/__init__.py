"""What a member of a consumer group decides, and what a client may ask about groups."""
