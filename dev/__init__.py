"""What the developers run: benchmarks, broken files, and kills. It is not part of the distribution."""
