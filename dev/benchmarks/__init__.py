"""Benchmarks: everything side by side in one run, best of several, as ratios.

    make bench                                    # all of it, and docs/benchmarks.md
    .venv/bin/python -m dev.benchmarks sampler runs   # some sections, to the terminal
    .venv/bin/python -m dev.benchmarks --quick        # a small version, to the terminal

A section is a module with `measure(sizes)`, which yields `Measurement`s; they are kept as JSON, and
`rendering` and `figure` turn that JSON, and nothing else, into the page.
"""
