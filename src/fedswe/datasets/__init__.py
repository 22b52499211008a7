"""The paper's image data sets: official files, in official formats, decoded once."""

from fedswe.datasets.cache import load
from fedswe.datasets.catalogue import DATASETS
from fedswe.datasets.images import Images

__all__ = ["DATASETS", "Images", "load"]
