"""What clients hold and train: tasks and the problems they build."""

from fedswe.tasks.digits import Digits
from fedswe.tasks.images import Cifar10, Cinic10, FashionMnist, Svhn
from fedswe.tasks.npz import Npz
from fedswe.tasks.problem import Task
from fedswe.tasks.quadratic import Quadratic

TASKS: dict[str, type[Task]] = {
    "quadratic": Quadratic,
    "digits": Digits,
    "npz": Npz,
    "svhn": Svhn,
    "cifar10": Cifar10,
    "cinic10": Cinic10,
    "fashion_mnist": FashionMnist,
}

__all__ = ["TASKS", "Cifar10", "Cinic10", "Digits", "FashionMnist", "Npz", "Quadratic", "Svhn", "Task"]
