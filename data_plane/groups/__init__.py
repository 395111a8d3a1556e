"""Consumer groups: the coordinator's state machine of one partition of `__groups`, its records and its assignors."""
