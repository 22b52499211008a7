"""The descent lemma and the multi-step perturbation lemma, against exact expectations on quadratics."""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from tests.theory.definitions import perturbation_bound
from tests.theory.statements import descent_terms

FloatArray = npt.NDArray[np.float64]


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


@dataclass
class Quadratics:
    """Scalar clients F_i = c_i (x - u_i)^2 / 2 with gradient noise of variance sigma^2, run by Algorithm 1."""

    curvature: FloatArray
    optima: FloatArray
    prob: FloatArray
    sigma: float
    local_lr: float
    lr: float
    steps: int
    k: float

    def __post_init__(self) -> None:
        self.clients = len(self.optima)
        self.total = self.clients + self.k
        self.server, self.models, self.echo = 0.0, np.zeros(self.clients), np.ones(self.clients)

    def gradients(self, x: FloatArray) -> FloatArray:
        return self.curvature * (x - self.optima)

    def objective(self, x: float) -> float:
        """F~ = (1/M) sum F_i."""
        return float((self.curvature * (x - self.optima) ** 2).sum() / (2 * self.total))

    def auxiliary(self) -> tuple[FloatArray, float]:
        """z_i of Definition (auxiliary sequence), and its mean over regular and virtual clients."""
        stretch = self.local_lr * self.lr * self.steps * (self.echo - 1)
        z = self.models - stretch * self.gradients(self.models)
        return z, float((z.sum() + self.k * self.server) / self.total)

    def expected_change(self) -> float:
        """E[F~(z+) - F~(z)], exact: all sets A, and the noise through its variance (F~ is quadratic)."""
        z, mean = self.auxiliary()
        kept = 1 - self.local_lr * self.curvature
        progress = (1 - kept**self.steps) * (self.models - self.optima)  # E of x_i^(t,0) - x_i^(t,s)
        noise = self.local_lr**2 * sum(kept ** (2 * r) for r in range(self.steps)) * self.sigma**2
        present = self.models - self.lr * self.echo * progress
        absent = z - self.local_lr * self.lr * self.steps * self.gradients(self.models)
        result = 0.0
        for here in itertools.product([False, True], repeat=self.clients):
            flags = np.array(here)
            chance = float(np.where(flags, self.prob, 1 - self.prob).prod())
            after = (np.where(flags, present, absent).sum() + self.k * self.server) / self.total
            spread = (flags * (self.lr * self.echo) ** 2 * noise).sum() / self.total**2
            curvature = self.curvature.sum() / self.total
            result += chance * (self.objective(float(after)) + curvature * float(spread) / 2)
        return result - self.objective(mean)

    def terms(self):
        z, mean = self.auxiliary()
        return descent_terms(
            local_lr=self.local_lr, lr=self.lr, steps=self.steps, k=self.k, smoothness=float(self.curvature.max()),
            sigma_squared=self.sigma**2, delta_max=float(self.prob.max()),
            gradient=float((self.gradients(np.full(self.clients, mean)).sum() / self.total) ** 2),
            staleness=self.echo, client_gradients=self.gradients(self.models) ** 2,
            approximation=(self.models - z) ** 2, consensus=(z - mean) ** 2,
        )  # fmt: skip

    def advance(self, rng: np.random.Generator) -> None:
        here = rng.random(self.clients) < self.prob
        x = self.models.copy()
        for _ in range(self.steps):
            x = x - self.local_lr * (self.gradients(x) + self.sigma * rng.standard_normal(self.clients))
        echoed = self.models - self.lr * self.echo * (self.models - x)
        if here.sum() + self.k > 0:
            self.server = float((echoed[here].sum() + self.k * self.server) / (here.sum() + self.k))
        self.models = np.where(here, self.server, self.models)
        self.echo = np.where(here, 1.0, self.echo + 1)


def test_the_descent_lemma_holds_on_runs_at_its_largest_rates() -> None:
    rng = np.random.default_rng(0)
    for case in range(40):
        clients, steps = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        curvature = rng.uniform(0.1, 2, clients)
        lr = float(rng.choice([0.5, 1, 5]))  # eta_l = 1/(4sL) and eta_l eta_g = 1/(8sL) meet at 0.5
        run = Quadratics(
            curvature, rng.normal(0, 3, clients), rng.uniform(0.1, 1, clients), sigma=float(rng.choice([0, 1])),
            local_lr=1 / (8 * steps * curvature.max() * lr), lr=lr, steps=steps, k=[0.0, 0.5, 2.0, 20.0][case % 4],
        )  # fmt: skip
        for _ in range(30):
            terms, change = run.terms(), run.expected_change()
            assert terms.total - change >= -1e-12 * (1 + abs(terms.gradient))
            run.advance(rng)


def at_the_minimum(echo: list[float], models: list[float], sigma: float) -> Quadratics:
    """A state whose auxiliary mean is the minimiser of F, with local rates so small that local drift vanishes."""
    curvature, optima = np.array([1.0, 0.2]), np.array([0.0, 3.0])
    run = Quadratics(curvature, optima, np.array([1.0, 0.5]), sigma, 1e-6, 1e5, steps=1, k=1.0)
    run.echo, run.models = np.array(echo), np.array(models)
    _, mean = run.auxiliary()
    run.server = run.total * (curvature @ optima / curvature.sum() - mean)
    return run


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("noise", at_the_minimum([1, 1], [0.5, 0.5], sigma=1.0)),
        ("approximation", at_the_minimum([3, 1], [0.625, 0.5], sigma=0.0)),  # z_1 = z_2 = 0.5
        ("consensus", at_the_minimum([1, 1], [0.0, 1.0], sigma=0.0)),
    ],
)
def test_the_descent_lemma_needs_each_error_term(name: str, run: Quadratics) -> None:
    terms, change = run.terms(), run.expected_change()
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
