"""One window of a log as polylines: other agents, lanes and crosswalks around a target."""
