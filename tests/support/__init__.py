"""The kit of the tests: what tests of more than one package make, compare with and start."""
