"""What clients hold and train: tasks, and the problems that they build."""

from fedswe.tasks.classification import ClassificationTask, Digits, Npz
from fedswe.tasks.data_task import DataTask, from_data
from fedswe.tasks.images import Cifar10, Cinic10, FashionMnist, Svhn
from fedswe.tasks.problem import Task
from fedswe.tasks.quadratic import Quadratic

__all__ = [
    "Cifar10",
    "Cinic10",
    "ClassificationTask",
    "DataTask",
    "Digits",
    "FashionMnist",
    "Npz",
    "Quadratic",
    "Svhn",
    "Task",
    "from_data",
]
