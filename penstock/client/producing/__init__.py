"""What one producer decides: batches, their order and numbers, and what an answer means."""
