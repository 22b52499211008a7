"""The kinds of parts that have names, and the names of the built-in ones. Nothing is imported to list them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """One kind of thing that has a name."""

    base: str  # "module:Class" that every class of this kind derives from
    group: str  # entry points of installed packages
    builtin: dict[str, str]  # name to "module:Class"


KINDS = {
    "algorithm": Kind(
        "fedswe.core.algorithm:Algorithm",
        "fedswe.algorithms",
        {
            "fedswe": "fedswe.algorithms.fedswe:FedSWE",
            "fedawe": "fedswe.algorithms.fedswe:FedAWE",
            "fedavg": "fedswe.algorithms.fedavg:FedAvg",
            "fedavg_all": "fedswe.algorithms.fedavg:FedAvgAll",
            "fedavg_known": "fedswe.algorithms.fedavg:FedAvgKnown",
            "gfedavg": "fedswe.algorithms.gfedavg:GFedAvg",
            "fedau": "fedswe.algorithms.fedau:FedAU",
            "f3ast": "fedswe.algorithms.f3ast:F3AST",
            "mifa": "fedswe.algorithms.mifa:MIFA",
            "fedvarp": "fedswe.algorithms.fedvarp:FedVARP",
            "scaffold": "fedswe.algorithms.scaffold:Scaffold",
            "amplified_scaffold": "fedswe.algorithms.scaffold:AmplifiedScaffold",
            "fedpbc": "fedswe.algorithms.fedpbc:FedPBC",
            "fedswe_variant": "fedswe.algorithms.fedswe_variant:FedSWEVariant",
            "bounded_fedswe": "fedswe.algorithms.bounded_fedswe:BoundedFedSWE",
            "decayed_memory": "fedswe.algorithms.decayed_memory:DecayedMemory",
            "interval_weights": "fedswe.algorithms.interval_weights:IntervalWeights",
            "interval_extrapolation": "fedswe.algorithms.interval_extrapolation:IntervalExtrapolation",
            "echo": "fedswe.algorithms.echo:Echo",
            "debiased_fedavg": "fedswe.algorithms.debiased_fedavg:DebiasedFedAvg",
            "fedstale": "fedswe.algorithms.fedstale:FedStale",
            "fedstale_known": "fedswe.algorithms.fedstale:FedStaleKnown",
            "fedlaavg": "fedswe.algorithms.fedlaavg:FedLaAvg",
            "mimic": "fedswe.algorithms.mimic:MimiC",
            "focus": "fedswe.algorithms.focus:FOCUS",
            "fedasync": "fedswe.algorithms.fedasync:FedAsync",
            "fedbuff": "fedswe.algorithms.fedbuff:FedBuff",
            "ace": "fedswe.algorithms.ace:ACE",
            "ca2fl": "fedswe.algorithms.ca2fl:CA2FL",
        },
    ),
    "availability": Kind(
        "fedswe.availability.model:Availability",
        "fedswe.availability",
        {
            "always": "fedswe.availability.dynamics:Always",
            "stationary": "fedswe.availability.dynamics:Stationary",
            "staircase": "fedswe.availability.dynamics:Staircase",
            "sine": "fedswe.availability.dynamics:Sine",
            "interleaved_sine": "fedswe.availability.dynamics:InterleavedSine",
            "alternating": "fedswe.availability.dynamics:Alternating",
            "cyclic": "fedswe.availability.dynamics:Cyclic",
            "markov": "fedswe.availability.markov:Markov",
            "uniform_control": "fedswe.availability.composition:UniformControl",
            "daily_markov": "fedswe.availability.markov:DailyMarkov",
            "adversarial": "fedswe.availability.dynamics:Adversarial",
            "outages": "fedswe.availability.composition:Outages",
            "join_leave": "fedswe.availability.composition:JoinLeave",
            "sampled": "fedswe.availability.composition:Sampled",
            "mask": "fedswe.availability.mask:Mask",
            "intervals": "fedswe.availability.intervals:Intervals",
        },
    ),
    "clock": Kind(
        "fedswe.clock.model:Clock",
        "fedswe.clocks",
        {
            "rounds": "fedswe.clock.model:Rounds",
            "seconds": "fedswe.clock.seconds:Seconds",
        },
    ),
    "task": Kind(
        "fedswe.tasks.problem:Task",
        "fedswe.tasks",
        {
            "quadratic": "fedswe.tasks.quadratic:Quadratic",
            "digits": "fedswe.tasks.classification:Digits",
            "from_data": "fedswe.tasks.data_task:DataTask",
            "npz": "fedswe.tasks.classification:Npz",
            "svhn": "fedswe.tasks.images:Svhn",
            "cifar10": "fedswe.tasks.images:Cifar10",
            "cinic10": "fedswe.tasks.images:Cinic10",
            "fashion_mnist": "fedswe.tasks.images:FashionMnist",
        },
    ),
    "transform": Kind(
        "fedswe.core.transforms:Transform",
        "fedswe.transforms",
        {
            "clip": "fedswe.core.transforms:Clip",
            "weight_decay": "fedswe.core.transforms:WeightDecay",
            "prox": "fedswe.core.transforms:Prox",
            "momentum": "fedswe.core.transforms:Momentum",
            "adagrad": "fedswe.core.transforms:Adagrad",
            "adam": "fedswe.core.transforms:Adam",
            "yogi": "fedswe.core.transforms:Yogi",
        },
    ),
    "output": Kind(
        "fedswe.engine.outputs:Output",
        "fedswe.outputs",
        {
            "server": "fedswe.engine.outputs:ServerModel",
            "client_mean": "fedswe.engine.outputs:ClientMean",
            "augmented_mean": "fedswe.engine.outputs:AugmentedMean",
            "ema": "fedswe.engine.outputs:Ema",
            "window": "fedswe.engine.outputs:Window",
            "best": "fedswe.engine.best:Best",
        },
    ),
    "column": Kind(
        "fedswe.engine.columns:Column",
        "fedswe.columns",
        {
            "consensus": "fedswe.engine.columns:Consensus",
            "auxiliary": "fedswe.engine.columns:Auxiliary",
        },
    ),
    "tracker": Kind(
        "fedswe.tracking.tracker:Tracker",
        "fedswe.trackers",
        {
            "tensorboard": "fedswe.tracking.tensorboard:TensorBoard",
            "mlflow": "fedswe.tracking.mlflow:MLflow",
            "wandb": "fedswe.tracking.wandb:WandB",
        },
    ),
}


def kind_with_base(hint: Any) -> str | None:
    """The kind whose base class this type is."""
    target = f"{hint.__module__}:{hint.__qualname__}" if isinstance(hint, type) else ""
    return next((name for name, kind in KINDS.items() if kind.base == target), None)
