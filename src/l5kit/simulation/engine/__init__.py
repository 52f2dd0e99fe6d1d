"""The engine of the simulation: scenes of a batch that drivers move on, step by step."""
