"""Slots of environments: the records of many episodes in progress."""
