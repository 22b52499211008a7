"""The constants of Assumptions 2-4 of a task."""

import numpy as np
import pytest
import torch

from fedswe.analysis.convergence import measure, models_of_a_run
from fedswe.experiment.configuration import load
from tests import problems


def test_constants_of_a_real_task():
    """The digits: dissimilarity by hand, no noise with full batches, curvature of the softmax below its bound."""
    problem = problems.digits(m=5)
    engine = problems.engine("batched", load(None).algorithm, problem, np.ones((9, 5), dtype=bool))
    points = models_of_a_run(engine, 8, 3)
    assert engine.t == 8
    np.testing.assert_array_equal(points[0], problem.start)
    smoothness, variance, dissimilarity = measure(problem, points, batch_size=10**6, draws=2)
    assert variance.value == 0
    for n, x in enumerate(points):
        gradients = np.stack([problem.full_gradients(*inputs(x, i))[0] for i in range(5)])
        assert dissimilarity.divergence[n] == pytest.approx(gradients.var(axis=0).sum())
    assert measure(problem, points[:1], batch_size=4, draws=30)[1].value > 0.1
    assert 0.5 < smoothness.max() < 65 / 2  # features in [0, 1] and a bias: the Hessian is at most ||x||^2/2


def inputs(x, i):
    return torch.as_tensor(x)[None], torch.tensor([i])
