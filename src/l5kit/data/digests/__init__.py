"""Digests of datasets: their files wherever they lie, one SHA-256 for all, manifests, and whether a copy is whole."""
