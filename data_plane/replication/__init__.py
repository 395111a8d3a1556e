"""Core: the leader's and the follower's view of one partition."""
