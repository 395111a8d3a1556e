"""The blocking SDK: grpc's own blocking stack under the client's core. Its names are exported by
`penstock`.
"""
