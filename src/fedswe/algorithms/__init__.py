"""The built-in algorithms, one per file; fedswe/registry.py gives them their names."""

from fedswe.algorithms.ace import ACE
from fedswe.algorithms.bounded_fedswe import BoundedFedSWE
from fedswe.algorithms.ca2fl import CA2FL
from fedswe.algorithms.debiased_fedavg import DebiasedFedAvg
from fedswe.algorithms.decayed_memory import DecayedMemory
from fedswe.algorithms.echo import Echo
from fedswe.algorithms.f3ast import F3AST
from fedswe.algorithms.fedasync import FedAsync
from fedswe.algorithms.fedau import FedAU
from fedswe.algorithms.fedavg import FedAvg, FedAvgAll, FedAvgKnown
from fedswe.algorithms.fedbuff import FedBuff
from fedswe.algorithms.fedlaavg import FedLaAvg
from fedswe.algorithms.fedpbc import FedPBC
from fedswe.algorithms.fedstale import FedStale, FedStaleKnown
from fedswe.algorithms.fedswe import FedAWE, FedSWE
from fedswe.algorithms.fedswe_variant import FedSWEVariant
from fedswe.algorithms.fedvarp import FedVARP
from fedswe.algorithms.focus import FOCUS
from fedswe.algorithms.gfedavg import GFedAvg
from fedswe.algorithms.interval_extrapolation import IntervalExtrapolation
from fedswe.algorithms.interval_weights import IntervalWeights
from fedswe.algorithms.mifa import MIFA
from fedswe.algorithms.mimic import MimiC
from fedswe.algorithms.scaffold import AmplifiedScaffold, Scaffold

__all__ = [
    "ACE",
    "CA2FL",
    "F3AST",
    "FOCUS",
    "MIFA",
    "AmplifiedScaffold",
    "BoundedFedSWE",
    "DebiasedFedAvg",
    "DecayedMemory",
    "Echo",
    "FedAU",
    "FedAWE",
    "FedAsync",
    "FedAvg",
    "FedAvgAll",
    "FedAvgKnown",
    "FedBuff",
    "FedLaAvg",
    "FedPBC",
    "FedSWE",
    "FedSWEVariant",
    "FedStale",
    "FedStaleKnown",
    "FedVARP",
    "GFedAvg",
    "IntervalExtrapolation",
    "IntervalWeights",
    "MimiC",
    "Scaffold",
]
