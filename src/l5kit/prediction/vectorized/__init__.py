"""Models that predict the motion of all agents from vectors."""
