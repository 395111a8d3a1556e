"""Chaos: a cluster of real processes in network namespaces, hurt in every way this machine allows, and judged."""
