"""Checks of datasets: what is wrong in the records, and digests of the files."""
