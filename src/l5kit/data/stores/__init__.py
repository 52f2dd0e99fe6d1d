"""Stores of datasets: local and remote files, and reading, checking and caching of decoded chunks."""
