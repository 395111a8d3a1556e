"""Benchmarks: the product beside the floor, on the machine they run on."""
