"""The paper's image data sets: read from the official files, decoded once."""

from fedswe.datasets.cache import load
from fedswe.datasets.catalogue import DATASETS
from fedswe.datasets.readers import Images

__all__ = ["DATASETS", "Images", "load"]
