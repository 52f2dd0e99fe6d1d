"""Checks of datasets: validation of the records, and checksums of the files."""
