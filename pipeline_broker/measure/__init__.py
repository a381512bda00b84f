"""Measurement: the load generator, and the comparison of the modes."""
