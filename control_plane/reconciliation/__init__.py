"""Django app: brings the brokers to what is desired: deliveries, comparing, what the service itself needs, losses."""
