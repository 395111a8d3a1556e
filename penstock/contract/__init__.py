"""The public contract of Penstock: protos, identities, frames, error table, limits and topic settings."""
