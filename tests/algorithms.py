"""The built-in algorithms by name."""

from fedswe.kinds import KINDS
from fedswe.registry import resolve

ALGORITHMS = {name: resolve("algorithm", name) for name in KINDS["algorithm"].builtin}
