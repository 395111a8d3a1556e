"""An asyncio client of etcd's v3 API. It knows nothing of Penstock: keys, leases, revisions and watches only."""
