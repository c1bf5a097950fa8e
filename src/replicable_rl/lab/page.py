# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The page of the lab, a marimo notebook: controls, and what `measuring` and `showing` make of them."""

import marimo

app = marimo.App(width="medium", app_title="Replicability lab")

with app.setup:
    from typing import Any

    import marimo as mo

    from replicable_rl.lab import grids, setting
    from replicable_rl.lab.measuring import (
        COLUMNS,
        LOG_KINDS,
        LOG_RULES,
        MOST_MEGABYTES,
        MOST_SEED,
        audited,
        compared,
        diagnosed,
        example_log,
        later_seeds,
        two_runs,
    )
    from replicable_rl.lab.showing import (
        agreement_html,
        diagnosis_file,
        diagnosis_html,
        frontier_html,
        tried,
        two_runs_html,
    )


@app.cell
def _() -> None:
    mo.md("""
# Replicability lab

Two runs get the same shared seed and different samples. Do they return the same policy? Draw a grid or pick a problem,
move a slider, and look. Under every picture stands the command that makes it again.
""")


@app.cell
def _() -> tuple[Any, ...]:
    choice = mo.ui.dropdown(setting.choices(), value="two-goals-v1", label="Problem", allow_select_none=False)
    get_grid, set_grid = mo.state(grids.START, allow_self_loops=True)
    get_seeds, set_seeds = mo.state((1, 2), allow_self_loops=True)
    brush = mo.ui.radio(list(grids.BRUSHES), value="wall", inline=True, label="Paint")
    slip = mo.ui.slider(0.0, 0.9, 0.1, value=0.3, debounce=True, show_value=True, label="Slip")
    gamma = mo.ui.slider(
        steps=[0.5, 0.7, 0.8, 0.9, 0.95, 0.99], value=0.9, debounce=True, show_value=True, label="Discount γ"
    )
    parameters = mo.ui.text(placeholder="n_states=20, gamma=0.9", label="Its parameters, if not the usual ones")
    return brush, choice, gamma, get_grid, get_seeds, parameters, set_grid, set_seeds, slip


@app.cell
def _(set_grid: Any) -> tuple[Any, ...]:
    def resizing(change: str) -> Any:
        return lambda _: set_grid(lambda text: grids.resized(text, change))

    changes = mo.ui.array([mo.ui.button(label=change, on_change=resizing(change)) for change in grids.CHANGES])
    return (changes,)


@app.cell
def _(
    brush: Any, changes: Any, choice: Any, gamma: Any, get_grid: Any, parameters: Any, set_grid: Any, slip: Any
) -> tuple[Any, ...]:
    def painting(row: int, column: int) -> Any:
        return lambda _: set_grid(lambda text: grids.painted(text, row, column, brush.value))

    squares = grids.squares(get_grid())
    cells = mo.ui.array(
        [
            mo.ui.button(label=square.sign, tooltip=square.said, full_width=True, on_change=painting(*square.at))
            for square in squares
        ]
    )
    drawing = mo.ui.text_area(
        value=get_grid(), on_change=set_grid, label="The same as text: # wall, . free, S start, G goal", rows=4
    )
    columns = max((square.at[1] for square in squares), default=0) + 1
    board = [
        mo.hstack(cells.elements[i : i + columns], widths="equal", gap=0.15) for i in range(0, len(squares), columns)
    ]
    grid = mo.vstack(
        [
            brush,
            mo.Html(f'<div style="max-width: {2.6 * columns}rem">{mo.vstack(board, gap=0.15).text}</div>'),
            mo.hstack(list(changes.elements), justify="start", wrap=True),
            drawing,
            mo.hstack([slip, gamma], justify="start", wrap=True, gap=2),
        ]
    )
    mo.vstack([choice, grid if choice.value == setting.DRAWN else parameters])
    return cells, drawing


@app.cell
def _(get_seeds: Any, set_seeds: Any) -> tuple[Any, ...]:
    def seeding(which: int) -> Any:
        # A field that was emptied shows 0 when it is drawn again.
        return lambda seed: set_seeds(lambda seeds: (seed or 0, seeds[1]) if which == 0 else (seeds[0], seed or 0))

    first, second = (
        mo.ui.number(0, MOST_SEED, value=seed, on_change=seeding(which), label=f"Sample seed {which + 1}")
        for which, seed in enumerate(get_seeds())
    )
    again = mo.ui.button(label="New samples", on_change=lambda _: set_seeds(later_seeds))
    return again, first, second


@app.cell
def _() -> tuple[Any, ...]:
    rule = mo.ui.dropdown(list(setting.RULES), value="affordable", label="Rule", allow_select_none=False)
    samples = mo.ui.slider(
        steps=setting.SIZES, value=1000, debounce=True, show_value=True, label="Samples m of every pair"
    )
    epsilon = mo.ui.slider(
        steps=[0.005, 0.01, 0.02, 0.05, 0.1, 0.2], value=0.05, debounce=True, show_value=True, label="Loss allowed ε"
    )
    rho = mo.ui.slider(
        steps=[0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4], value=0.2, debounce=True, show_value=True, label="May differ ρ"
    )
    shared = mo.ui.number(0, MOST_SEED, value=7, label="Shared seed")
    pairs = mo.ui.slider(steps=[20, 60, 100, 200, 500], value=60, debounce=True, show_value=True, label="Pairs of runs")
    return epsilon, pairs, rho, rule, samples, shared


@app.cell
def _(again: Any, epsilon: Any, first: Any, rho: Any, rule: Any, samples: Any, second: Any, shared: Any) -> None:
    mo.vstack(
        [
            mo.hstack([rule, mo.md(setting.RULES[rule.value])], justify="start", wrap=True),
            mo.hstack([samples, epsilon, rho], justify="start", wrap=True, gap=2),
            mo.hstack([shared, first, second, again], justify="start", align="end", wrap=True, gap=1),
        ]
    )


@app.cell
def _(
    choice: Any, epsilon: Any, gamma: Any, get_grid: Any, parameters: Any, rho: Any, rule: Any, samples: Any, slip: Any
) -> tuple[Any, ...]:
    def asked() -> setting.Setting:
        if choice.value == setting.DRAWN:
            problem = setting.drawn_problem(get_grid(), slip.value, gamma.value)
        else:
            problem = setting.picked_problem(choice.value, parameters.value)
        return setting.Setting(problem, rule.value, int(samples.value), epsilon.value, rho.value)

    return (asked,)


@app.cell
def _(asked: Any, get_seeds: Any, shared: Any) -> None:
    mo.vstack(
        [
            mo.md("## Two runs"),
            mo.Html(tried(lambda: two_runs_html(two_runs(asked(), shared.value, get_seeds())))),
        ]
    )


@app.cell
def _(asked: Any, pairs: Any) -> None:
    mo.vstack(
        [
            mo.md("## How often do two runs agree?"),
            pairs,
            mo.Html(tried(lambda: agreement_html(audited(asked(), int(pairs.value))))),
        ]
    )


@app.cell
def _() -> tuple[Any, ...]:
    measure = mo.ui.run_button(label="Measure it: some ten seconds")
    mo.vstack([mo.md("## The frontier: which rule needs how many samples?"), measure])
    return (measure,)


@app.cell
def _(asked: Any, measure: Any) -> None:
    if measure.value:
        with mo.status.spinner("Trying sizes of every rule, one after the other …"):
            frontier = tried(lambda: frontier_html(compared(asked())))
    else:
        frontier = ""
    mo.Html(frontier)


@app.cell
def _() -> tuple[Any, ...]:
    log = mo.ui.file(
        list(LOG_KINDS),
        kind="area",
        max_size=MOST_MEGABYTES * 10**6,
        label=f"Drop a log here: {', '.join(LOG_KINDS)}, at most {MOST_MEGABYTES} MB, a row for every transition.",
    )
    log_gamma = mo.ui.number(0.0, 0.9999, value=0.9, label="Discount γ of the log")
    log_rule = mo.ui.dropdown(list(LOG_RULES), value=LOG_RULES[0], label="Rule", allow_select_none=False)
    names = mo.ui.dictionary({name: mo.ui.text(placeholder=name, label=name) for name in COLUMNS})
    mo.vstack(
        [
            mo.md("## What would another log say?"),
            log,
            mo.hstack([log_gamma, log_rule], justify="start", wrap=True, gap=2),
            mo.md("Its columns, where they are called otherwise; the last three are optional."),
            mo.hstack(list(names.elements.values()), justify="start", wrap=True),
            mo.hstack(
                [mo.download(example_log(), "walk.csv", "text/csv", label="A log to try: walk.csv")], justify="start"
            ),
        ]
    )
    return log, log_gamma, log_rule, names


@app.cell
def _(epsilon: Any, log: Any, log_gamma: Any, log_rule: Any, names: Any) -> None:
    _pages: list[str] = []

    def diagnosis() -> str:
        asked_of_it = {"epsilon": epsilon.value, "rule": log_rule.value}
        found = diagnosed(log.name(), log.contents(), log_gamma.value, names.value, **asked_of_it)
        _pages.append(diagnosis_file(found))
        return diagnosis_html(found)

    if log.value:
        with mo.status.spinner("Drawing logs like this one, to see whether they decide alike …"):
            said_of_it = tried(diagnosis)
    else:
        said_of_it = ""
    kept = [mo.download(text.encode(), "page.html", "text/html", label="Keep this as a page") for text in _pages]
    mo.vstack([mo.Html(said_of_it), mo.hstack(kept, justify="start")])


if __name__ == "__main__":
    app.run()
