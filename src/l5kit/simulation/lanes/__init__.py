"""What is ahead of vehicles on their paths along lanes, and how they follow them."""
