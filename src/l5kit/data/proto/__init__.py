"""Protobuf schema of the semantic map."""
