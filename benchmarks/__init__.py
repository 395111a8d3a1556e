"""Benchmarks: the product beside the floor, on the machine they run on."""

import os

# Set before grpc is loaded: it would note the end of every connection to a broker that stops.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
