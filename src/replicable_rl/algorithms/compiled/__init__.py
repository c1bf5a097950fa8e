"""Compiled forms of the listings: the same bits, sooner."""
