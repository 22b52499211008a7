"""The descent lemma and the multi-step perturbation lemma, against exact expectations on quadratics."""

import itertools

import numpy as np
import pytest

from tests.theory.definitions import perturbation_bound
from tests.theory.statements import descent_step, descent_terms


def test_the_terms_by_hand() -> None:
    # eta = 0.2, M = 3, sum e^2 = 5, sum e^2 g = 9.
    terms = descent_terms(
        local_lr=0.1, lr=2, steps=3, k=1, smoothness=0.5, sigma_squared=4, delta_max=0.5, gradient=9, staleness=[1, 2],
        client_gradients=[1, 2], approximation=[0.3, 0.6], consensus=[1, 5],
    )  # fmt: skip
    assert terms.gradient == pytest.approx(-0.2 * 3 / 3 * 9)
    assert terms.noise == pytest.approx(2 * 0.2 * 3 * 0.5 * 4 * (0.2 * 0.5 + 9 * 2 * 0.01 * 3 * 0.5) / 9 * 5)
    assert terms.local_drift == pytest.approx(65 * 2 * 0.001 * 27 * 0.25 / 3 * 9)
    assert terms.approximation == pytest.approx(4 * 0.2 * 3 * 0.25 / 3 * 0.9)
    assert terms.consensus == pytest.approx(0.2 * 3 * 0.25 / 6 * 6)
    assert terms.total == pytest.approx(-1.8 + 0.49333333 + 2.6325 + 0.18 + 0.15)


@pytest.mark.parametrize(
    ("name", "echo", "models", "sigma"),
    [
        ("noise", [1, 1], [0.5, 0.5], 1.0),
        ("approximation", [3, 1], [2 / 3, 0.5], 0.0),  # z_1 = z_2 = 0.5
        ("consensus", [1, 1], [0.0, 1.0], 0.0),
    ],
)
def test_the_descent_lemma_needs_each_error_term(name, echo, models, sigma):
    """Where the auxiliary mean is the minimiser of F, with local rates so small that local drift vanishes.

    That the lemma holds at its largest rates is a test of the errata's entry 10.
    """
    curvature, optima, echo, models = (np.array(of, dtype=float) for of in ([1, 0.2], [0, 3], echo, models))
    gradients = curvature * (models - optima)
    z = models - (echo - 1) * gradients / 8  # eta s L = 1/8
    server = 3 * (curvature @ optima / curvature.sum()) - z.sum()
    prob = np.array([1.0, 0.5])
    change, terms, _ = descent_step(curvature, gradients, models, echo, prob, server, sigma, lr=1e5, steps=1, k=1)
    assert terms.gradient == pytest.approx(0, abs=1e-12)
    assert terms.total >= change
    assert terms.total - getattr(terms, name) < change


def perturbation(local_lr: float, steps: int, curvature: float, sigma: float, gradient: float) -> float:
    """E||sum_r (F'(x_r) - F'(x_0))||^2 for F = curvature x^2 / 2 with gradient noise, exactly."""
    kept = 1 - local_lr * curvature
    powers = kept ** np.arange(steps)
    mean = ((powers - 1) * gradient).sum()
    later = [powers[: steps - 1 - j].sum() for j in range(steps - 1)]  # effect of the noise of step j
    return float(mean**2 + (curvature * local_lr * sigma) ** 2 * np.square(later).sum())


def test_the_perturbation_bound_by_hand() -> None:
    noise = perturbation_bound(local_lr=0.5, steps=2, smoothness=3, sigma_squared=7, gradient_norm_squared=0)
    drift = perturbation_bound(local_lr=0.5, steps=2, smoothness=3, sigma_squared=0, gradient_norm_squared=7)
    assert noise == pytest.approx(5 * 0.25 * 8 * 9 * 7)
    assert drift == pytest.approx(20 * 0.25 * 16 * 9 * 7)


def test_the_perturbation_bound_holds_under_its_condition_and_not_far_beyond() -> None:
    def holds(local_lr: float, steps: int, sigma: float, gradient: float) -> bool:
        bound = perturbation_bound(
            local_lr=local_lr, steps=steps, smoothness=2, sigma_squared=sigma**2, gradient_norm_squared=gradient**2
        )
        return perturbation(local_lr, steps, 2, sigma, gradient) <= bound

    for steps, sigma, gradient in itertools.product([1, 2, 5, 20], [0, 1], [0, 3]):
        assert holds(1 / (4 * steps * 2), steps, sigma, gradient)
    assert not holds(1.5, 20, 0, 3)  # eta_l L = 3: the local steps diverge
