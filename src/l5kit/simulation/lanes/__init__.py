"""Lane driving: paths of vehicles along lanes, obstacles ahead on them, and how vehicles follow them."""
