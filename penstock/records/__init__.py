"""The record format: RecordBatch v2, compression, stamps and seals. Pure; used by clients, brokers and verifiers."""
