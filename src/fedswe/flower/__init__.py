"""Every rule as a Flower strategy, for unmodified Flower apps."""

from fedswe.errors import FedsweError

try:
    import flwr  # noqa: F401
except ImportError:
    raise FedsweError('Flower is not installed: pip install "fedswe[flower]"') from None

from fedswe.flower.mod import mod
from fedswe.flower.strategy import Strategy

__all__ = ["Strategy", "mod"]
