"""What messages count for: which readings of odometers are due, and what was delivered and asked for."""
