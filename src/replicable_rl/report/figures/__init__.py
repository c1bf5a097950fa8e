"""Figures: each draws a saved :class:`~replicable_rl.experiments.dataset.Dataset` and computes nothing."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from replicable_rl.experiments.dataset import Dataset
from replicable_rl.report.figures.style import save, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "draw", "save_figure"]

FIGURES = ("figure1", "figure2", "exploration", "theorem", "cost", "levels")  # claims are a table


def draw(dataset: Dataset) -> Figure:
    """Draw a dataset with the module of its name."""
    module = importlib.import_module(f"{__name__}.{dataset.name}")
    with styled():
        figure: Figure = module.draw(dataset)
    return figure


def save_figure(dataset: Dataset, folder: Path) -> list[Path]:
    """Draw a dataset and write it as PNG, SVG and PDF; return the files, none where it is a table."""
    return save(draw(dataset), folder, dataset.name) if dataset.name in FIGURES else []
