"""Models that plan from vectors."""
