"""Federated learning when clients come and go: FedSWE and its peers, one definition each."""

from fedswe.comparison import Comparison, compare
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Evaluate, Experiment, Record
from fedswe.experiment.runner import resume, run

__all__ = ["Comparison", "Evaluate", "Experiment", "FedsweError", "Record", "compare", "resume", "run"]
