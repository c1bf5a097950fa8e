"""Programs to start from; each runs by itself, and the tests run them small."""
