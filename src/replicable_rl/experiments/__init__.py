"""Experiments: settings, design, analysis, figure and verdicts of each in one module of ``catalogue``."""
