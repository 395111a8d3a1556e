"""Core: who leads what; from an image of the metadata to compare-and-set writes."""
