"""A planner in a loop without a dataset: moments come in, plans go out."""
