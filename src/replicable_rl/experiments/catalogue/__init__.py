"""The experiments: every module here is one and defines ``EXPERIMENT``; a new module is a new experiment."""
