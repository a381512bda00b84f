"""Measurement: the load generator (`load`) and the experiment that compares modes (`experiment`)."""
