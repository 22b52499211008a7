"""What clients hold and train: tasks and the problems they build."""

from fedswe.tasks.digits import Digits
from fedswe.tasks.npz import Npz
from fedswe.tasks.problem import Task
from fedswe.tasks.quadratic import Quadratic

TASKS: dict[str, type[Task]] = {"quadratic": Quadratic, "digits": Digits, "npz": Npz}

__all__ = ["TASKS", "Digits", "Npz", "Quadratic", "Task"]
