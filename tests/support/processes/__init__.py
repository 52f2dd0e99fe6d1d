"""Modules that test processes run, importable by spawned ones."""
