"""Estimates of L, sigma^2 and (beta, zeta), on problems whose constants are known."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from fedswe.theory import constants
from fedswe.theory.constants import (
    estimate_dissimilarity,
    estimate_gradient_variance,
    estimate_smoothness,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def stacked(one: Callable[..., FloatArray]) -> Callable[..., FloatArray]:
    """Many clients at a time from the plain definition of one."""

    def many(clients: IntArray, x: FloatArray, *draw: int) -> FloatArray:
        return np.stack([one(int(i), row, *draw) for i, row in zip(clients, x, strict=True)])

    return many


@pytest.fixture(autouse=True, params=[2**22, 1])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All clients at once, and one at a time: the estimates are the same."""
    monkeypatch.setattr(constants, "BLOCK", request.param)


def test_smoothness_of_quadratics_is_the_largest_absolute_eigenvalue() -> None:
    rng = np.random.default_rng(0)
    spectra = [[0.1, 2.0, 1.0, 0.5], [-7.0, 3.0, 1.0, 0.0], [4.0, -4.0, 2.0, 1.0]]  # indefinite ones too
    rotations = [np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in spectra]
    hessians = [q @ np.diag(values) @ q.T for q, values in zip(rotations, spectra, strict=True)]

    def full_gradient(client: int, x: FloatArray) -> FloatArray:
        return np.asarray(hessians[client] @ (x - client))

    estimate = estimate_smoothness(stacked(full_gradient), 3, rng.standard_normal((2, 4)), iterations=60)
    assert estimate == pytest.approx([2, 7, 4], rel=1e-6)
    few = estimate_smoothness(stacked(full_gradient), 3, rng.standard_normal((2, 4)), iterations=2)
    assert np.all(few <= estimate * (1 + 1e-9))


def test_smoothness_elsewhere_is_the_curvature_at_the_points_and_below_the_constant() -> None:
    rng = np.random.default_rng(1)
    features = rng.standard_normal((30, 5))

    def full_gradient(client: int, x: FloatArray) -> FloatArray:
        return np.asarray(features.T @ (1 / (1 + np.exp(-features @ x))) / 30)

    x = rng.standard_normal(5)
    sigmoid = 1 / (1 + np.exp(-features @ x))
    here = np.linalg.norm((features.T * (sigmoid * (1 - sigmoid))) @ features / 30, 2)
    constant = np.linalg.norm(features.T @ features / 30, 2) / 4
    at_x = estimate_smoothness(stacked(full_gradient), 1, x[None], iterations=200)
    assert at_x == pytest.approx(here, rel=1e-6)
    at_both = estimate_smoothness(stacked(full_gradient), 1, [x, np.zeros(5)], iterations=200)
    assert at_x < at_both == pytest.approx(constant, rel=1e-6)  # the curvature is largest at 0


def test_smoothness_far_from_the_origin_keeps_its_digits() -> None:
    """A step that did not grow with the model would leave two digits of a difference of gradients at 1e10."""
    estimate = estimate_smoothness(stacked(lambda client, x: 3 * x), 1, np.full((1, 4), 1e10))
    assert estimate == pytest.approx(3, rel=1e-6)


def test_a_linear_client_has_curvature_zero() -> None:
    assert estimate_smoothness(stacked(lambda client, x: np.ones(3)), 1, np.zeros((1, 3))) == 0.0


def test_variance_is_exact_when_the_draws_run_through_the_samples() -> None:
    """F_i is the mean of (x - s)^2/2 over client i's samples s: the variance is that of the samples."""
    rng = np.random.default_rng(2)
    samples = [rng.normal(0, scale, (40, 3)) for scale in (1.0, 3.0)]

    def full_gradient(client: int, x: FloatArray) -> FloatArray:
        return np.asarray(x - samples[client].mean(axis=0))

    def stochastic_gradient(client: int, x: FloatArray, draw: int) -> FloatArray:
        return np.asarray(x - samples[client][draw])

    points = rng.standard_normal((2, 3))
    estimate = estimate_gradient_variance(stacked(full_gradient), stacked(stochastic_gradient), 2, points, draws=40)
    exact = [values.var(axis=0).sum() for values in samples]
    assert estimate.value == pytest.approx(exact[1])
    assert estimate.mean == pytest.approx(np.mean(exact))


def test_variance_by_sampling_is_within_its_error() -> None:
    def draw(client: int, x: FloatArray, number: int) -> FloatArray:
        return np.asarray(x + 2 * np.random.default_rng([client, number]).standard_normal(5))

    estimate = estimate_gradient_variance(stacked(lambda i, x: x), stacked(draw), 1, np.zeros((1, 5)), draws=2000)
    assert abs(estimate.value - 20) < 4 * estimate.standard_error < 3


def test_dissimilarity_of_shifted_quadratics_is_all_zeta() -> None:
    optima = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 6.0]])
    points = np.random.default_rng(3).normal(0, 5, (20, 2))
    estimate = estimate_dissimilarity(stacked(lambda i, x: np.asarray(x - optima[i])), 3, points)
    assert estimate.beta == pytest.approx(0, abs=1e-6)
    assert estimate.zeta**2 == pytest.approx(optima.var(axis=0).sum())


def test_dissimilarity_of_scaled_quadratics_is_all_beta() -> None:
    curvature = np.array([1.0, 2.0, 6.0])
    points = np.random.default_rng(4).normal(0, 5, (20, 2))
    estimate = estimate_dissimilarity(stacked(lambda i, x: np.asarray(curvature[i] * x)), 3, points)
    assert estimate.beta**2 == pytest.approx(curvature.var() / curvature.mean() ** 2)
    assert estimate.zeta == pytest.approx(0, abs=1e-6)


def test_dissimilarity_holds_at_every_point_and_is_tight_at_one() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        clients = int(rng.integers(1, 6))
        hessians, optima = rng.standard_normal((clients, 3, 3)), rng.normal(0, 3, (clients, 3))
        points = rng.normal(0, 2, (int(rng.integers(1, 9)), 3))
        estimate = estimate_dissimilarity(
            stacked(lambda i, x, h=hessians, u=optima: np.asarray(h[i] @ (x - u[i]))), clients, points
        )
        for n, x in enumerate(points):
            gradients = np.stack([hessians[i] @ (x - optima[i]) for i in range(clients)])
            mean = gradients.mean(axis=0)
            assert estimate.divergence[n] == pytest.approx(np.mean([np.sum((g - mean) ** 2) for g in gradients]))
            assert estimate.gradient_norm_squared[n] == pytest.approx(np.sum(mean**2))
        slack = estimate.beta**2 * estimate.gradient_norm_squared + estimate.zeta**2 - estimate.divergence
        scale = estimate.divergence.max() + 1e-12
        assert slack.min() >= -1e-9 * scale
        assert slack.min() <= 1e-9 * scale or estimate.zeta == 0


def test_a_full_batch_has_no_noise() -> None:
    """Two ways to add up the same samples differ by rounding, which is not a variance."""
    samples = np.random.default_rng(6).standard_normal((30, 4))
    estimate = estimate_gradient_variance(
        stacked(lambda i, x: np.asarray(x - samples.mean(axis=0))),
        stacked(lambda i, x, q: np.asarray(x - np.random.default_rng(q).permutation(samples).sum(axis=0) / 30)),
        1,
        [[100.0, 2.0, 3.0, 4.0]],
        draws=5,
    )
    assert estimate.value == 0.0
