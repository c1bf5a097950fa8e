"""Two runs side by side, plain and replicable: a marimo notebook.

marimo edit examples/two_runs.py     # or `marimo run`, for the page alone
"""

import marimo

app = marimo.App(width="medium", app_title="The same policy twice")

with app.setup:
    from typing import Any

    import marimo as mo
    import numpy as np

    import replicable_rl as rr

    PAIRS = 100  # of runs
    WIDTH = 0.05  # of the grid, in values normalised to [0, 1]
    problem = rr.make("two-goals-v1")


@app.cell
def _() -> None:
    mo.md("""
# The same policy twice

A grid has two goals, and from the middle of its rows both are equally good. Two runs see different samples. The plain
run takes the action with the largest estimated value, so noise decides. The replicable run first rounds its values to
a grid whose offset both runs share, so that values in one bin are equal to the last bit.
""")


@app.cell
def _() -> tuple[Any, ...]:
    m = mo.ui.slider(steps=[10**e for e in range(1, 9)], value=1000, show_value=True, label="Samples m of every pair")
    offset = mo.ui.slider(0.0, 0.95, 0.05, value=0.0, show_value=True, label="Offset of the grid, in bins")
    seeds = mo.ui.slider(1, PAIRS, 1, value=1, show_value=True, label="Which pair of runs is drawn")
    mo.vstack([m, offset, seeds])
    return m, offset, seeds


@app.cell
def _(m: Any) -> tuple[Any, ...]:
    algorithm = rr.PhasedVI(0.1, 0.001, calls=m.value, iterations=60)
    runs = [rr.solve(problem, algorithm, shared_seed=0, sample_seed=seed) for seed in range(2 * PAIRS)]
    values = np.array([run.q for run in runs]) * (1.0 - problem.gamma)
    return (values,)


@app.cell
def _(offset: Any, values: Any) -> tuple[Any, ...]:
    rounded = rr.queries.rstat(values, offset.value, WIDTH).answer
    policies = {"plain": values.argmax(axis=2), "replicable": rounded.argmax(axis=2)}
    agreement = {name: float((every[::2] == every[1::2]).all(axis=1).mean()) for name, every in policies.items()}
    return agreement, policies


@app.cell
def _(agreement: Any, policies: Any, seeds: Any) -> None:
    def shown(name: str) -> Any:
        one, two = policies[name][2 * seeds.value - 2 : 2 * seeds.value].tolist()
        said = f"### {name}\n\nTwo runs have the same policy in **{agreement[name]:.0%}** of {PAIRS} pairs."
        return mo.vstack([mo.md(said), mo.plain_text(str(rr.draw(one, two, problem=problem)))])

    mo.hstack([shown("plain"), shown("replicable")], justify="start", gap=4, wrap=True)


@app.cell
def _() -> None:
    mo.md("""
A star marks the states in which the two runs differ. More samples do not help the plain runs: a tie stays a tie. They
help the replicable runs, because values that are close lie in one bin unless an edge falls between them. Move the
offset to see where it does; it is drawn at random, so that no problem is bad for all grids.
""")


if __name__ == "__main__":
    app.run()
