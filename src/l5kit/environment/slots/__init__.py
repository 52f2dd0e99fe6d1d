"""Slots of environments: the records of episodes that go on at the same time."""
