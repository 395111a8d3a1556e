"""The blocking SDK: grpc's own blocking stack under the client's core. Its names are exported by `penstock`."""

import penstock.transport.fork  # noqa: F401 -- before grpc, whose fork handlers it settles
