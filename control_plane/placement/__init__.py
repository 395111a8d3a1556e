"""Which brokers store which partitions: a pure planner, called by the command line and by Django."""
