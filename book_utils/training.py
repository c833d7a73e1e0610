r"""Fit several models at once: Adam with a rate annealed to zero, one call for all seeds.

The models don't interact. Their losses are added, so that one backward pass gives every gradient,
and Adam works entry by entry: each model ends where it would have ended alone (up to rounding).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ._validate import finite, finite_number, positive_int, positive_number, real_array
from .models import on_device, stack_parameters, unstack_parameters
from .systems import Floats, LinearGaussianSystem

Progress = Callable[[range], Iterable[int]]  # such as functools.partial(progress, label="training")
Model = TypeVar("Model", bound=nn.Module)

# Each use of randomness has a stream of its own: default_rng([stream, seed]).
TRAINING, VALIDATION, TEST, BATCHES = 1, 2, 3, 4


class TrainingDiverged(ArithmeticError):
    """A loss or gradient became NaN or infinite; `step` and `model` say where."""

    def __init__(self, step: int, model: int) -> None:
        super().__init__(
            f"training diverged: the loss of model {model} is not finite at step {step}; "
            "try a smaller learning rate"
        )
        self.step, self.model = step, model


@dataclass(frozen=True)
class Recipe:
    r"""How to train: the same for every model, unless the text says otherwise.

    Args:
        steps: number of updates.
        batch_size: trajectories an update; None for all of them (full batch).
        learning_rate: Adam's rate at the start; it falls to zero along half a cosine.
        beta1, beta2: how much of the running mean and mean square of the gradient is kept.
        epsilon: added to the root of the mean square.
    """

    steps: int = 1000
    batch_size: int | None = 32
    learning_rate: float = 1e-2
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        positive_int("steps", self.steps)
        if self.batch_size is not None:
            positive_int("batch_size", self.batch_size)
        positive_number("learning_rate", self.learning_rate)
        for name in ("beta1", "beta2"):
            if not 0 <= finite_number(name, getattr(self, name)) < 1:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        positive_number("epsilon", self.epsilon)


@dataclass
class History:
    """What training left behind.

    Attributes:
        losses: mean squared error of each model's batch before each update, (steps, S).
        seconds: wall-clock time, which depends on the machine.
    """

    losses: Floats
    seconds: float


@dataclass
class Fit:
    """Trained models, one a seed, and how their training went."""

    models: list[Any]
    seeds: list[int]
    history: History


def cosine_rate(step: int, steps: int) -> float:
    r"""Factor on the learning rate at a step: $\tfrac12(1 + \cos(\pi\,\text{step}/\text{steps}))$.

    It is 1 at step 0 and would be 0 at `steps`: the last updates are tiny, so that rounding and
    the order of the batches hardly matter to where training ends (Loshchilov & Hutter 2017).
    """
    return 0.5 * (1.0 + math.cos(math.pi * step / steps))


@dataclass
class Adam:
    r"""Adam (Kingma & Ba 2015) for one tensor, in the open.

    $$ m \leftarrow \beta_1 m + (1-\beta_1) g, \qquad
       v \leftarrow \beta_2 v + (1-\beta_2) g^2, $$
    $$ \theta \leftarrow \theta
       - \eta\,\frac{m / (1-\beta_1^k)}{\sqrt{v / (1-\beta_2^k)} + \epsilon} $$

    Args:
        theta: the parameters; changed in place.
        recipe: for β₁, β₂ and ε.
    """

    theta: Tensor
    recipe: Recipe
    updates: int = 0
    m: Tensor = field(init=False)
    v: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.m, self.v = torch.zeros_like(self.theta), torch.zeros_like(self.theta)

    @torch.no_grad()
    def step(self, gradient: Tensor, rate: float | Tensor) -> None:
        """Update in place; `rate` is a number, or a tensor that broadcasts against theta."""
        r, self.updates = self.recipe, self.updates + 1
        self.m.lerp_(gradient, 1 - r.beta1)
        self.v.mul_(r.beta2).addcmul_(gradient, gradient, value=1 - r.beta2)
        root = (self.v / (1 - r.beta2**self.updates)).sqrt_().add_(r.epsilon)
        self.theta.sub_(rate / (1 - r.beta1**self.updates) * self.m / root)


def train_together(
    models: Sequence[nn.Module],
    tokens: Any,
    targets: Any,
    recipe: Recipe | None = None,
    *,
    seeds: Sequence[int] | None = None,
    learning_rates: Sequence[float] | None = None,
    progress: Progress | None = None,
    device: Any = None,
) -> History:
    r"""Fit S models of one class and size by teacher forcing, all in the same loop.

    Parameters with ``requires_grad`` off stay as they are. Each model minimises
    $\frac{1}{NT}\sum_{i,t}(\hat y^{(i)}_{t+1} - y^{(i)}_{t+1})^2$ on its own data.

    Args:
        models: S modules with ``stacked_forward``; changed in place.
        tokens: (S, N, T, 2) numpy array or tensor, one data set a model; or (N, T, 2) for all.
        targets: (S, N, T) or (N, T), to match.
        recipe: `Recipe` with its defaults when None.
        seeds: one integer a model, for the order of its batches; 0 … S−1 when None.
        learning_rates: one rate a model, in place of the recipe's.
        progress: wraps the range of steps and hands them on, like ``progress.progress`` with its
            label filled in.
        device: where to compute, such as "cuda"; None for where the models are. The models stay
            where they are.

    Returns:
        `History`.

    Raises:
        TypeError, ValueError: models differ, shapes do not fit, data are empty, complex or not
            finite, the batch is larger than the data, or there is no such device.
        TrainingDiverged: a loss or gradient became NaN or infinite; it names the step.
    """
    recipe = recipe or Recipe()
    stacked = on_device(stack_parameters(models), device)
    S, flat = len(models), torch.cat([p.flatten(1) for p in stacked.values()], dim=1)
    x, y = _data(tokens, targets, S, flat)
    batches = _batches(recipe, x.shape[1], S, seeds)
    rates = _rates(learning_rates, recipe, S, flat) * _trainable(models, flat)
    adam, losses, started = Adam(flat, recipe), np.empty((recipe.steps, S)), time.perf_counter()
    row = torch.arange(S)[:, None]
    steps = range(recipe.steps)
    for step in steps if progress is None else progress(steps):
        batch = next(batches)
        xb, yb = (x, y) if batch is None else (x[row, batch], y[row, batch])
        loss, gradient = _loss_and_gradient(models[0], stacked, flat, xb, yb)
        _check_finite(loss, gradient, step)
        losses[step] = loss.double().cpu()
        adam.step(gradient, rates * cosine_rate(step, recipe.steps))
    unstack_parameters(_views(flat, stacked), models)
    return History(losses, time.perf_counter() - started)


def fit_seeds(
    make_model: Callable[[int], Model],
    system: LinearGaussianSystem,
    seeds: Sequence[int],
    *,
    trajectories: int = 2048,
    T: int = 32,
    recipe: Recipe | None = None,
    learning_rates: Sequence[float] | None = None,
    progress: Progress | None = None,
    device: Any = None,
) -> Fit:
    """Train one model a seed; the seed fixes its data, its first weights and its batches.

    Args:
        make_model: from a seed to a model, such as ``lambda seed: DiagonalSSM(seed=seed)``.
        system: draws the training trajectories.
        seeds: integers of at least 0.
        trajectories, T: size of each training set.
        recipe, learning_rates, progress, device: as for `train_together`.

    Raises:
        As `train_together`.
    """
    seeds = [positive_int("each seed", s, minimum=0) for s in seeds]
    data = [training_set(system, s, trajectories, T) for s in seeds]
    models = [make_model(s) for s in seeds]
    history = train_together(
        models,
        np.stack([tokens for tokens, _ in data]) if data else np.empty((0, 0, T, 2)),
        np.stack([targets for _, targets in data]) if data else np.empty((0, 0, T)),
        recipe,
        seeds=seeds,
        learning_rates=learning_rates,
        progress=progress,
        device=device,
    )
    return Fit(models, seeds, history)


def training_set(
    system: LinearGaussianSystem, seed: int, trajectories: int = 2048, T: int = 32
) -> tuple[Floats, Floats]:
    """(tokens (N, T, 2), targets (N, T)) that belong to a seed; apart from every held-out set."""
    drawn = system.simulate(trajectories, T, np.random.default_rng([TRAINING, seed]))
    return drawn.tokens, drawn.targets


def held_out_set(
    system: LinearGaussianSystem, kind: int = TEST, trajectories: int = 4096, T: int = 32
) -> tuple[Floats, Floats]:
    """(tokens, targets) of the one `VALIDATION` or `TEST` set that all models share."""
    if kind not in (VALIDATION, TEST):
        raise ValueError(f"kind must be VALIDATION or TEST, got {kind!r}")
    drawn = system.simulate(trajectories, T, np.random.default_rng([kind]))
    return drawn.tokens, drawn.targets


def _loss_and_gradient(
    model: nn.Module, stacked: dict[str, Tensor], flat: Tensor, x: Tensor, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Each model's loss (S,), and its gradient with respect to its row of `flat`."""
    leaf = flat.detach().requires_grad_()
    forecasts = model.stacked_forward(_views(leaf, stacked), x)  # type: ignore[operator]
    loss = (forecasts - y).square().mean(dim=(1, 2))
    (gradient,) = torch.autograd.grad(loss.sum(), leaf)
    return loss.detach(), gradient


def _views(flat: Tensor, like: dict[str, Tensor]) -> dict[str, Tensor]:
    """Cut (S, P) into the named parameters, each (S, ...)."""
    pieces = flat.split([p[0].numel() for p in like.values()], dim=1)
    return {
        name: piece.view(p.shape) for (name, p), piece in zip(like.items(), pieces, strict=True)
    }


def _trainable(models: Sequence[nn.Module], flat: Tensor) -> Tensor:
    """1 for each number that may change and 0 for a frozen one, (S, P)."""
    flags = [
        torch.cat([p.new_full((p.numel(),), float(p.requires_grad)) for p in model.parameters()])
        for model in models
    ]
    return torch.stack(flags).to(flat)


def _check_finite(loss: Tensor, gradient: Tensor, step: int) -> None:
    good = loss.isfinite() & gradient.sum(dim=1).isfinite()
    if not bool(good.all()):
        raise TrainingDiverged(step, int((~good).nonzero()[0, 0]))


def _data(tokens: Any, targets: Any, S: int, like: Tensor) -> tuple[Tensor, Tensor]:
    x, y = (
        finite(name, torch.tensor(real_array(name, given), dtype=like.dtype, device=like.device))
        for name, given in (("tokens", tokens), ("targets", targets))
    )
    if x.ndim not in (3, 4) or x.shape[-1] != 2 or y.shape != x.shape[:-1]:
        raise ValueError(
            "tokens must have shape (S, N, T, 2) or (N, T, 2) and targets the same without the 2, "
            f"got {tuple(x.shape)} and {tuple(y.shape)}"
        )
    if x.ndim == 4 and len(x) != S:
        raise ValueError(f"tokens hold {len(x)} data sets for {S} models")
    if x.numel() == 0:
        raise ValueError(
            f"tokens must hold at least one trajectory and token, got {tuple(x.shape)}"
        )
    return x.expand(S, *x.shape[-3:]), y.expand(S, *y.shape[-2:])


def _batches(
    recipe: Recipe, N: int, S: int, seeds: Sequence[int] | None
) -> Iterator[Tensor | None]:
    """Endless (S, batch_size) indices, an order a model; None stands for all of the data."""
    seeds = range(S) if seeds is None else seeds
    if len(seeds) != S:
        raise ValueError(f"seeds must hold one integer a model: {len(seeds)} for {S} models")
    size = N if recipe.batch_size is None else recipe.batch_size
    if size > N:
        raise ValueError(f"batch_size {size} is larger than the {N} trajectories")
    rngs = [np.random.default_rng([BATCHES, positive_int("seed", s, minimum=0)]) for s in seeds]
    return itertools.repeat(None) if size == N else _shuffled(rngs, N, size)


def _shuffled(rngs: Sequence[np.random.Generator], N: int, size: int) -> Iterator[Tensor]:
    while True:  # one turn is one pass over the data; a remainder smaller than a batch is left out
        order = torch.from_numpy(np.stack([rng.permutation(N) for rng in rngs]))
        for start in range(0, N - size + 1, size):
            yield order[:, start : start + size]


def _rates(rates: Sequence[float] | None, recipe: Recipe, S: int, like: Tensor) -> Tensor:
    """One learning rate a model, (S, 1)."""
    values = [recipe.learning_rate] * S if rates is None else list(rates)
    if len(values) != S:
        raise ValueError(f"learning_rates must hold one rate a model: {len(values)} for {S} models")
    values = [positive_number("learning rate", v) for v in values]
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]
