"""MetaStore port, the model of what is stored in it, and the image brokers keep of it."""
