"""What broker and cluster know of each other: the registration, the metadata image, a store to trust."""
