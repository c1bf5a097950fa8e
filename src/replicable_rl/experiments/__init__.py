"""Experiments: every folder here is one, with its design, analysis, figure and texts side by side."""
