"""The built-in algorithms, one per file; fedswe/registry.py gives them their names."""

from fedswe.algorithms.ace import ACE as ACE
from fedswe.algorithms.area import Area as Area
from fedswe.algorithms.bounded_fedswe import BoundedFedSWE as BoundedFedSWE
from fedswe.algorithms.ca2fl import CA2FL as CA2FL
from fedswe.algorithms.debiased_fedavg import DebiasedFedAvg as DebiasedFedAvg
from fedswe.algorithms.decayed_memory import DecayedMemory as DecayedMemory
from fedswe.algorithms.echo import Echo as Echo
from fedswe.algorithms.f3ast import F3AST as F3AST
from fedswe.algorithms.fedasync import FedAsync as FedAsync
from fedswe.algorithms.fedau import FedAU as FedAU
from fedswe.algorithms.fedavg import FedAvg as FedAvg
from fedswe.algorithms.fedavg import FedAvgAll as FedAvgAll
from fedswe.algorithms.fedavg import FedAvgKnown as FedAvgKnown
from fedswe.algorithms.fedbuff import FedBuff as FedBuff
from fedswe.algorithms.fedexp import FedExP as FedExP
from fedswe.algorithms.fedlaavg import FedLaAvg as FedLaAvg
from fedswe.algorithms.fednova import FedNova as FedNova
from fedswe.algorithms.fedpbc import FedPBC as FedPBC
from fedswe.algorithms.fedstale import FedStale as FedStale
from fedswe.algorithms.fedstale import FedStaleKnown as FedStaleKnown
from fedswe.algorithms.fedswe import FedAWE as FedAWE
from fedswe.algorithms.fedswe import FedSWE as FedSWE
from fedswe.algorithms.fedswe_variant import FedSWEVariant as FedSWEVariant
from fedswe.algorithms.fedvarp import FedVARP as FedVARP
from fedswe.algorithms.focus import FOCUS as FOCUS
from fedswe.algorithms.gfedavg import GFedAvg as GFedAvg
from fedswe.algorithms.ghbm import GHBM as GHBM
from fedswe.algorithms.ghbm import LocalGHBM as LocalGHBM
from fedswe.algorithms.interval_extrapolation import IntervalExtrapolation as IntervalExtrapolation
from fedswe.algorithms.interval_weights import IntervalWeights as IntervalWeights
from fedswe.algorithms.keel import Keel as Keel
from fedswe.algorithms.mifa import MIFA as MIFA
from fedswe.algorithms.mimic import MimiC as MimiC
from fedswe.algorithms.scaffold import AmplifiedScaffold as AmplifiedScaffold
from fedswe.algorithms.scaffold import Scaffold as Scaffold

__all__ = [name for name in dir() if name[0].isupper()]  # not the modules, of which one is called fedswe
