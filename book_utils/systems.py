r"""The little world of the experiment: a hidden linear system with noise, seen through one number.

$$ s_{t+1} = A s_t + B u_t + w_t, \qquad y_{t+1} = C s_{t+1} + v_{t+1}, $$
$$ w_t \sim N(0, q^2 I), \quad v_t \sim N(0, r^2), \quad s_0 \sim N(0, p_0^2 I). $$

Index convention, everywhere in this book: T transitions make T + 1 slots, 0 … T. The control $u_t$
acts *between* slot t and slot t + 1. Slot 0 has a hidden state but no observation: its token holds
the placeholder $y_0 := 0$. So the token at t is $(y_t, u_t)$ and its target is $y_{t+1}$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._validate import finite, finite_number, generator, positive_int, positive_number, real_array

Floats = NDArray[np.float64]

DEFAULT_A = ((0.92, 0.30), (-0.30, 0.92))  # eigenvalues .92 ± .30i, modulus .968
DEFAULT_B = (0.0, 0.5)
DEFAULT_C = (1.0, 0.5)


@dataclass(frozen=True, eq=False)
class LinearGaussianSystem:
    r"""A time-invariant linear system with Gaussian noise, scalar control and scalar observation.

    Args:
        A: transition matrix, (n, n).
        B: how the control enters, (n,).
        C: how the state is seen, (n,).
        process_std: q, standard deviation of the noise on each state; 0 is allowed.
        observation_std: r, standard deviation of the noise on an observation; above 0.
        initial_std: p₀, standard deviation of each component of $s_0$ (mean zero); 0 is allowed.

    Raises:
        TypeError: a standard deviation is not a real number, or an array holds no real numbers.
        ValueError: shapes do not fit, an entry is not finite, q < 0, r ≤ 0 or p₀ < 0.
    """

    A: Any = DEFAULT_A
    B: Any = DEFAULT_B
    C: Any = DEFAULT_C
    process_std: float = 0.05
    observation_std: float = 0.1
    initial_std: float = 0.3

    def __post_init__(self) -> None:
        matrix = _constant("A", self.A, 2)
        n = matrix.shape[0]
        if matrix.shape != (n, n) or n == 0:
            raise ValueError(f"A must have shape (n, n) with n ≥ 1, got {matrix.shape}")
        object.__setattr__(self, "A", matrix)
        for name in ("B", "C"):
            vector = _constant(name, getattr(self, name), 1)
            if vector.shape != (n,):
                raise ValueError(f"{name} must have shape ({n},) to match A, got {vector.shape}")
            object.__setattr__(self, name, vector)
        positive_number("observation_std", self.observation_std)
        for name in ("process_std", "initial_std"):
            if finite_number(name, getattr(self, name)) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")

    @property
    def n(self) -> int:
        """Number of hidden states."""
        return len(self.A)

    @property
    def Q(self) -> Floats:
        """Covariance of the process noise, q² I, (n, n)."""
        return _variance("process_std", self.process_std) * np.eye(self.n)

    @property
    def R(self) -> float:
        """Variance of the observation noise, r²."""
        return _variance("observation_std", self.observation_std)

    @property
    def initial_covariance(self) -> Floats:
        """Covariance of the first hidden state, p₀² I, (n, n)."""
        return _variance("initial_std", self.initial_std) * np.eye(self.n)

    def simulate(
        self, n: int, T: int, rng: np.random.Generator | int, controls: Any = None
    ) -> Trajectories:
        """Draw trajectories of T transitions.

        Args:
            n: number of trajectories.
            T: number of transitions.
            rng: numpy Generator, or an integer seed.
            controls: (n, T) or (T,) given controls; independent standard normal when None.

        Returns:
            `Trajectories` with states (n, T+1, ·), controls (n, T), observations (n, T+1).

        Raises:
            TypeError: `n`, `T` or `rng` is of the wrong type, or controls are not real.
            ValueError: a size is below 1, controls do not fit or are not finite, or the states
                overflow.
        """
        shape = (positive_int("n", n), positive_int("T", T))
        rng = generator("rng", rng)
        states = np.empty((n, T + 1, self.n))
        states[:, 0] = self.initial_std * rng.standard_normal((n, self.n))
        drawn = rng.standard_normal(shape)
        u = drawn if controls is None else _controls(controls, shape)
        w = self.process_std * rng.standard_normal((n, T, self.n))
        v = self.observation_std * rng.standard_normal(shape)
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(T):
                states[:, t + 1] = states[:, t] @ self.A.T + u[:, t, None] * self.B + w[:, t]
            observations = np.zeros((n, T + 1))
            observations[:, 1:] = states[:, 1:] @ self.C + v
        if not np.isfinite(observations).all():
            raise ValueError("the states overflow: A is unstable and T too long")
        return Trajectories(states, u.copy(), observations)


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Simulated trajectories: what happened, and what a learner is shown.

    Attributes:
        states: hidden states in slots 0 … T, (n, T+1, states). No learner sees them.
        controls: $u_0, …, u_{T-1}$, (n, T).
        observations: $y_0, …, y_T$, (n, T+1); slot 0 holds the placeholder 0.
    """

    states: Floats
    controls: Floats
    observations: Floats

    @property
    def tokens(self) -> Floats:
        r"""What a learner reads: token t is $(y_t, u_t)$; (n, T, 2)."""
        return np.stack([self.observations[:, :-1], self.controls], axis=-1)

    @property
    def targets(self) -> Floats:
        r"""What it must forecast: at token t the *next* observation $y_{t+1}$; (n, T)."""
        return self.observations[:, 1:].copy()


def observability_matrix(system: LinearGaussianSystem) -> Floats:
    r"""Stack what each later observation sees of the state at slot t (noise and control left out).

    $$ O = \begin{bmatrix} C \\ CA \\ \vdots \\ CA^{n-1} \end{bmatrix} $$

    Returns:
        Array (n, n): row k is $C A^k$.
    """
    rows = [system.C]
    for _ in range(system.n - 1):
        rows.append(rows[-1] @ system.A)
    return np.stack(rows)


def is_observable(system: LinearGaussianSystem) -> bool:
    """Whether enough noise-free observations determine the state: O has rank n (Kalman 1960)."""
    return bool(np.linalg.matrix_rank(observability_matrix(system)) == system.n)


def _variance(name: str, std: float) -> float:
    """Square a standard deviation; ValueError where the square overflows."""
    square = float(std) * float(std)
    if square == np.inf:
        raise ValueError(f"{name} is {std}, so that its square, the variance, overflows")
    return square


def _constant(name: str, value: Any, ndim: int) -> Floats:
    """Make a read-only float64 copy, so that a frozen system stays as it is."""
    array = real_array(name, value).copy()
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, got shape {array.shape}")
    finite(name, array)
    array.setflags(write=False)
    return array


def _controls(controls: Any, shape: tuple[int, int]) -> Floats:
    u = real_array("controls", controls)
    if u.shape not in (shape, shape[1:]):
        raise ValueError(f"controls must have shape {shape} or {shape[1:]}, got {u.shape}")
    return finite("controls", np.broadcast_to(u, shape))
