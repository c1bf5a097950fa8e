"""Experiments: a plan (data) and an analysis of the solutions; drawing is done elsewhere."""
