"""The built-in algorithms by name."""

from fedswe.registry import KINDS, resolve

ALGORITHMS = {name: resolve("algorithm", name) for name in KINDS["algorithm"].builtin}
