"""The internal contract: replication, admin and stored records. Never shown to tenants."""
