"""Version 1 of the client contract: the proto and its committed stubs."""
