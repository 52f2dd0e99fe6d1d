"""Closed-loop simulation: how vehicles move, and who drives them."""
