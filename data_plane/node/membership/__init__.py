"""What broker and cluster know of each other: registration, metadata image, whether the store may be acted on."""
