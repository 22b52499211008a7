"""Every rule as a Flower strategy, for unmodified Flower apps."""

from fedswe.errors import needed

needed("flwr", "flower")

from fedswe.flower.mod import mod  # noqa: E402
from fedswe.flower.strategy import Strategy  # noqa: E402

__all__ = ["Strategy", "mod"]
