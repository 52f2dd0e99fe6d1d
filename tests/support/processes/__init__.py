"""What the processes do that tests start; modules, so that spawned processes can import them."""
