"""Vectorizers: a window of a log as polylines of other agents, lanes and crosswalks around a target."""
