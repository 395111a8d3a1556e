"""The data plane: replicated log brokers. Serves, elects and recovers without the control plane."""
