"""Figures of runs: their scores over rounds, time or traffic, and their final scores."""

from fedswe.figures.drawing import draw_comparison, plot

__all__ = ["draw_comparison", "plot"]
