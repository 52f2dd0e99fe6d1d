"""The dataset on disk, its records and filters, and the semantic map."""
