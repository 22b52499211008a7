"""Figures of runs: their scores over rounds, time or traffic, and their final scores."""

from fedswe.figures.drawing import plot

__all__ = ["plot"]
