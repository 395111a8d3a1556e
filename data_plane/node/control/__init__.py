"""Where partitions are led: the controller's seat, handing over, declared losses, and the calls of operators."""
