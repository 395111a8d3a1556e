"""Django app: the brokers as this service meets them: the client, what they say, and where they were last seen."""
