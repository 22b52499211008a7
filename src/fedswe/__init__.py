"""Federated learning when clients come and go: FedSWE and its peers, one definition each."""

from fedswe.errors import FedsweError
from fedswe.experiment import Evaluate, Experiment, Record
from fedswe.run import resume, run

__all__ = ["Evaluate", "Experiment", "FedsweError", "Record", "resume", "run"]
