"""Digests of datasets: file trees, one SHA-256 for a whole dataset, manifests, and verification of copies."""
