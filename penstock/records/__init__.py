"""The record format: RecordBatch v2, compression, stamps, seals. Pure; for clients, brokers and verifiers."""
