"""REST against hostile callers: whatever the OpenAPI document allows, and what it does not."""
