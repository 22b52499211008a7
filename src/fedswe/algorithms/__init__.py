"""The built-in algorithms, one per file; fedswe/registry.py gives them their names."""

from fedswe.algorithms.decayed_memory import DecayedMemory
from fedswe.algorithms.f3ast import F3AST
from fedswe.algorithms.fedau import FedAU
from fedswe.algorithms.fedavg import FedAvg, FedAvgAll, FedAvgKnown
from fedswe.algorithms.fedpbc import FedPBC
from fedswe.algorithms.fedswe import FedAWE, FedSWE
from fedswe.algorithms.fedswe_variant import FedSWEVariant
from fedswe.algorithms.fedvarp import FedVARP
from fedswe.algorithms.gfedavg import GFedAvg
from fedswe.algorithms.interval_weights import IntervalWeights
from fedswe.algorithms.mifa import MIFA
from fedswe.algorithms.scaffold import AmplifiedScaffold, Scaffold

__all__ = [
    "F3AST",
    "MIFA",
    "AmplifiedScaffold",
    "DecayedMemory",
    "FedAU",
    "FedAWE",
    "FedAvg",
    "FedAvgAll",
    "FedAvgKnown",
    "FedPBC",
    "FedSWE",
    "FedSWEVariant",
    "FedVARP",
    "GFedAvg",
    "IntervalWeights",
    "Scaffold",
]
