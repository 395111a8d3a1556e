"""What every process of the service does in one way: its log lines and its configuration."""
