"""The blocking SDK: grpc's own blocking stack under the client's core. Its names are exported by `penstock`."""

import penstock.transport.process  # noqa: F401 -- before grpc, whose settings for the process it makes
