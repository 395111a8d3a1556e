"""What every long-running process of the service does in one way: its log lines and its configuration."""
