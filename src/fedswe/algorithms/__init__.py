"""One algorithm, one short file. The registry is read by the command line, the laws and the documentation."""

from fedswe.algorithms.f3ast import F3AST
from fedswe.algorithms.fedau import FedAU
from fedswe.algorithms.fedavg import FedAvg, FedAvgAll, FedAvgKnown
from fedswe.algorithms.fedpbc import FedPBC
from fedswe.algorithms.fedswe import FedAWE, FedSWE
from fedswe.algorithms.fedswe_variant import FedSWEVariant
from fedswe.algorithms.fedvarp import FedVARP
from fedswe.algorithms.gfedavg import GFedAvg
from fedswe.algorithms.mifa import MIFA
from fedswe.algorithms.scaffold import AmplifiedScaffold, Scaffold
from fedswe.core.algorithm import Algorithm

ALGORITHMS: dict[str, type[Algorithm]] = {
    "fedswe": FedSWE,
    "fedawe": FedAWE,
    "fedavg": FedAvg,
    "fedavg_all": FedAvgAll,
    "fedavg_known": FedAvgKnown,
    "gfedavg": GFedAvg,
    "fedau": FedAU,
    "f3ast": F3AST,
    "mifa": MIFA,
    "fedvarp": FedVARP,
    "scaffold": Scaffold,
    "amplified_scaffold": AmplifiedScaffold,
    "fedpbc": FedPBC,
    "fedswe_variant": FedSWEVariant,
}

__all__ = [
    "ALGORITHMS",
    "F3AST",
    "MIFA",
    "AmplifiedScaffold",
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
    "Scaffold",
]
