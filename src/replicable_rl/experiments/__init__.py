"""Experiments: a plan (data) and an analysis of the runs; drawing is done elsewhere."""
