"""Sessions: run a planner online, without a dataset; moments in, plans out."""
