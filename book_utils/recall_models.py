r"""Eight memories that compete in the chapter on events: one skeleton, and only the memory differs.

Every model turns each token into an embedding $e_j$ and a value $v_j = W_V e_j$ of width d, sums the
values with weights of its own, and answers from that sum and the query's embedding:

$$ o = \sum_{j=1}^{T} w_j \odot v_j, \qquad
   \hat y = \mathrm{MLP}\big(W_O(o \odot \mathrm{silu}(W_G e_T)),\; e_T\big). $$

The weights are the memory. They may depend on the question (`attention_weights`,
`linear_attention_weights`), on the age of a token alone (`fixed_weights`), or on the tokens that
came after it (`selective_weights`). As the query comes last and only one answer is wanted, no
recurrence has to be run: its last state is such a sum.

All modules hold S models at once, one a seed, on a leading axis S; nothing mixes them. First weights
are drawn with numpy, one generator a seed, so that model s is the same in whatever company.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import elu, silu, softplus

from ._validate import finite, positive_int, same_size
from .attention import softmax, window_mask
from .events import Batch, Floats, Task, relative_error
from .training import BATCHES, Progress, Recipe, TrainingDiverged, cosine_rate

WINDOW = 16
HEADS = 2
KEY_WIDTH = 8  # of the selective layers' B_t and C_t
FASTEST_ONLY = 0.9  # the largest decay of the memory that has fast poles only
RECIPE = Recipe(steps=600, batch_size=64, learning_rate=1e-2)
FIRST_WEIGHTS, TEST = 5, 6  # streams of randomness: default_rng([stream, seed])

# ------------------------------------------------------------------------ weights: four rules


def attention_weights(q: Tensor, k: Tensor, slope: Tensor, window: int | None = None) -> Tensor:
    r"""Weights of softmax attention with a linear penalty on distance (Press et al. 2022).

    $$ w_j = \mathrm{softmax}_j\big(q^\top k_j / \sqrt{d_k} - m\,(T - j)\big) $$

    Args:
        q: the query, (..., d_k).
        k: keys, (..., T, d_k).
        slope: m, (...), per token; here it is learned.
        window: only the last `window` tokens may be attended to; all when None.

    Returns:
        Tensor (..., T) with sum one.

    Raises:
        ValueError: widths differ, or `window` is below 1.
    """
    same_size("the width of q", q.shape[-1], "the width of k", k.shape[-1])
    T, d_k = k.shape[-2:]
    scores = (k @ q.unsqueeze(-1)).squeeze(-1) / math.sqrt(d_k) - slope.unsqueeze(-1) * lags(T)
    if window is not None:
        scores = scores.masked_fill(~window_mask(T, window)[-1], -math.inf)
    return softmax(scores, dim=-1)


def linear_attention_weights(q: Tensor, k: Tensor) -> Tensor:
    r"""Weights of linear attention (Katharopoulos et al. 2020), φ(x) = elu(x) + 1.

    $$ w_j = \frac{\phi(q)^\top \phi(k_j)}{\sum_l \phi(q)^\top \phi(k_l)} $$

    Args:
        q: the query, (..., d_k).
        k: keys, (..., T, d_k).

    Returns:
        Tensor (..., T), positive with sum one.

    Raises:
        ValueError: widths differ.
    """
    same_size("the width of q", q.shape[-1], "the width of k", k.shape[-1])
    match = ((elu(k) + 1) @ (elu(q) + 1).unsqueeze(-1)).squeeze(-1)
    return match / match.sum(dim=-1, keepdim=True)


def fixed_weights(log_decay: Tensor, T: int) -> Tensor:
    r"""Weights of a state-space model with fixed decays: a power of age, whatever was said.

    $$ w_j = \bar a^{\,T-j} $$

    Args:
        log_decay: ln ā, (..., d), real or complex, with a real part below 0.
        T: number of tokens.

    Returns:
        Tensor (..., T, d).

    Raises:
        ValueError: a decay is not inside the unit circle.
    """
    if not bool((log_decay.real < 0).all()):
        raise ValueError("log_decay must have a real part below 0: the decay must shrink the state")
    return (lags(T)[:, None] * log_decay.unsqueeze(-2)).exp()


def selective_weights(q: Tensor, k: Tensor, step: Tensor, rate: Tensor) -> Tensor:
    r"""Weights of a selective state-space model: what later tokens have let stand.

    $$ w_j = (q^\top k_j)\;\Delta_j\;\exp\!\Big(-\alpha \sum_{l>j} \Delta_l\Big) $$

    This is the last output of $H_t = e^{-\alpha\Delta_t} H_{t-1} + \Delta_t v_t k_t^\top$, read as
    $H_T q$, with one rate α a channel (Gu & Dao 2023; in this form Dao & Gu 2024). In Mamba's letters
    k is B, q is C.

    Args:
        q: what is read, (..., n).
        k: what is written, (..., T, n).
        step: Δ > 0, (..., T, d).
        rate: α > 0, (..., d).

    Returns:
        Tensor (..., T, d).

    Raises:
        ValueError: widths differ.
    """
    same_size("the width of q", q.shape[-1], "the width of k", k.shape[-1])
    since = step.flip(-2).cumsum(-2).flip(-2) - step  # sum of the steps after token j
    return (k @ q.unsqueeze(-1)) * step * (-rate.unsqueeze(-2) * since).exp()


def selective_outputs(
    q: Tensor, k: Tensor, v: Tensor, step: Tensor, rate: Tensor, last: int
) -> Tensor:
    r"""Outputs at the last few tokens of the recurrence of `selective_weights`, by running it there.

    The state that those tokens start from is one weighted sum, so nothing is run before them.

    $$ H_t = e^{-\alpha\Delta_t} H_{t-1} + \Delta_t v_t k_t^\top, \qquad y_t = H_t q_t $$

    Args:
        q: what is read, (..., T, n).
        k: what is written, (..., T, n).
        v: values, (..., T, d).
        step: Δ > 0, (..., T, d).
        rate: α > 0, (..., d).
        last: how many outputs are wanted.

    Returns:
        Tensor (..., min(last, T), d).

    Raises:
        TypeError, ValueError: `last` is not an integer of at least 1.
    """
    first = max(0, v.shape[-2] - positive_int("last", last))
    keep, write = (-rate.unsqueeze(-2) * step).exp(), step * v
    since = step[..., :first, :].flip(-2).cumsum(-2).flip(-2) - step[..., :first, :]
    kept = write[..., :first, :] * (-rate.unsqueeze(-2) * since).exp()
    H, outputs = kept.mT @ k[..., :first, :], []  # (..., d, n): the state before those tokens
    for t in range(first, v.shape[-2]):
        written = write[..., t, :, None] * k[..., t, None, :]
        H = keep[..., t, :, None] * H + written
        outputs.append((H * q[..., t, None, :]).sum(dim=-1))
    return torch.stack(outputs, dim=-2)


def lags(T: int) -> Tensor:
    """How long ago each of T tokens was: T − 1, …, 1, 0."""
    return torch.arange(positive_int("T", T) - 1, -1, -1, dtype=torch.get_default_dtype())


# ------------------------------------------------------------------------------- the skeleton


class StackedLinear(nn.Module):
    r"""S linear layers side by side: weights from U(±√(3/d_in)), bias constant.

    Args:
        rngs: one numpy Generator a model.
        d_in, d_out: widths.
        bias: the first value of every bias.
    """

    def __init__(
        self, rngs: Sequence[np.random.Generator], d_in: int, d_out: int, *, bias: float = 0.0
    ) -> None:
        super().__init__()
        bound = math.sqrt(3.0 / d_in)
        draw = np.stack([rng.uniform(-bound, bound, (d_in, d_out)) for rng in rngs])
        self.weight = nn.Parameter(_tensor(draw))
        self.bias = nn.Parameter(_tensor(np.full((len(rngs), 1, d_out), bias)))

    def forward(self, x: Tensor) -> Tensor:
        """(S, ..., d_in) → (S, ..., d_out)."""
        flat = x.reshape(x.shape[0], -1, x.shape[-1])
        return torch.baddbmm(self.bias, flat, self.weight).view(*x.shape[:-1], -1)


class RecallModel(nn.Module):
    """S models of one kind; a subclass gives the memory by its `weights`.

    Args:
        width: entries of a token.
        seeds: one integer a model, for its first weights.
        d: width of an embedding.
        hidden: width of the two MLPs.

    Raises:
        TypeError, ValueError: a size is not an integer of at least 1, no seed, or d is odd.
    """

    def __init__(self, width: int, seeds: Sequence[int], d: int = 20, hidden: int = 40) -> None:
        super().__init__()
        self.d = positive_int("d", d)
        if d % HEADS:
            raise ValueError(f"d must be a multiple of {HEADS}, got {d}")
        if not seeds:
            raise ValueError("seeds must hold at least one integer, got none")
        self.seeds = [positive_int("each seed", s, minimum=0) for s in seeds]
        self._rngs = [np.random.default_rng([FIRST_WEIGHTS, s]) for s in self.seeds]
        self.embed_in = self._linear(positive_int("width", width), positive_int("hidden", hidden))
        self.embed_out = self._linear(hidden, d)
        self.value = self._linear(d, d)
        self.gate = self._linear(d, d)
        self.output = self._linear(d, d)
        self.head_in = self._linear(2 * d, hidden)
        self.head_out = self._linear(hidden, 1)
        self._build()

    def forward(self, tokens: Tensor) -> Tensor:
        """Answers (S, N) to sequences (S, N, T, width), or (N, T, width) for all models alike.

        Raises:
            TypeError: `tokens` is not a floating-point tensor.
            ValueError: the shape does not fit.
        """
        e = self.embed(self._checked(tokens))
        o = (self.weights(e) * self.value(e)).sum(dim=-2)
        last = e[..., -1, :]
        o = self.output(o * silu(self.gate(last)))
        return self.head_out(self.head_in(torch.cat([o, last], dim=-1)).relu()).squeeze(-1)

    def embed(self, tokens: Tensor) -> Tensor:
        """Embeddings (S, N, T, d) of tokens (S, N, T, width), each token by itself."""
        return self.embed_out(self.embed_in(tokens).relu())

    def weights(self, e: Tensor) -> Tensor:
        """What of each token's value reaches the answer: broadcastable to (S, N, T, d)."""
        raise NotImplementedError

    def parameter_count(self) -> int:
        """Parameters of one of the S models."""
        return sum(p[0].numel() for p in self.parameters())

    def _build(self) -> None:
        """Make what the memory needs beyond the skeleton."""

    def _linear(self, d_in: int, d_out: int, *, bias: float = 0.0) -> StackedLinear:
        return StackedLinear(self._rngs, d_in, d_out, bias=bias)

    def _stacked(self, values: Any) -> nn.Parameter:
        """The same first values for all models, (S, 1, ...)."""
        first = _tensor(np.asarray(values))
        return nn.Parameter(first.expand(len(self.seeds), 1, *first.shape).clone())

    def _checked(self, tokens: Tensor) -> Tensor:
        width, S = self.embed_in.weight.shape[1], len(self.seeds)
        if not isinstance(tokens, Tensor) or not tokens.dtype.is_floating_point:
            raise TypeError("tokens must be a floating-point torch tensor")
        if tokens.ndim == 3:
            tokens = tokens.expand(S, *tokens.shape)
        if tokens.ndim != 4 or tokens.shape[0] != S or tokens.shape[-1] != width:
            raise ValueError(
                f"tokens must have shape ({S}, N, T, {width}) or (N, T, {width}), "
                f"got {tuple(tokens.shape)}"
            )
        return tokens


# ------------------------------------------------------------------------------- the memories


class Attention(RecallModel):
    """Softmax attention over everything, with a learned slope on distance; `HEADS` heads."""

    window: int | None = None

    def _build(self) -> None:
        self.query, self.key = self._linear(self.d, self.d), self._linear(self.d, self.d)
        self.slope_raw = self._stacked([-2.0] * HEADS)

    @property
    def slope(self) -> Tensor:
        """Penalty on each token of distance, m > 0, (S, 1, heads)."""
        return softplus(self.slope_raw)

    def weights(self, e: Tensor) -> Tensor:
        """Each head's weights, (S, N, T, d): a head's own slice of the d channels has them."""
        q = self.query(e[..., -1, :]).unflatten(-1, (HEADS, -1))  # (S, N, heads, d_k)
        k = self.key(e).unflatten(-1, (HEADS, -1)).transpose(-2, -3)  # (S, N, heads, T, d_k)
        w = attention_weights(q, k, self.slope, self.window)  # (S, N, heads, T)
        return w.transpose(-1, -2).repeat_interleave(self.d // HEADS, dim=-1)


class WindowAttention(Attention):
    """The same over the last `WINDOW` tokens."""

    window = WINDOW


class LinearAttention(RecallModel):
    """Attention whose whole memory is one d × d matrix, to which every token adds."""

    def _build(self) -> None:
        self.query, self.key = self._linear(self.d, self.d), self._linear(self.d, self.d)

    def weights(self, e: Tensor) -> Tensor:
        """One head, (S, N, T, 1)."""
        return linear_attention_weights(self.query(e[..., -1, :]), self.key(e)).unsqueeze(-1)


class SlowDecay(RecallModel):
    """Fixed real decays; the first time constants run from 4 to 1,000 tokens, and are learned."""

    def _build(self) -> None:
        self.rate_raw = self._stacked(_softplus_inverse(1 / np.geomspace(4, 1000, self.d)))

    def weights(self, e: Tensor) -> Tensor:
        """Powers of the decays, (S, 1, T, d)."""
        return fixed_weights(-softplus(self.rate_raw), e.shape[-2])


class FastDecay(RecallModel):
    """Fixed real decays that can't exceed `FASTEST_ONLY`."""

    def _build(self) -> None:
        share = np.linspace(0.05, 0.95, self.d)
        self.decay_raw = self._stacked(np.log(share / (1 - share)))

    def weights(self, e: Tensor) -> Tensor:
        """Powers of the decays, (S, 1, T, d)."""
        return fixed_weights((FASTEST_ONLY * self.decay_raw.sigmoid()).log(), e.shape[-2])


class ComplexDecay(RecallModel):
    """Fixed decays that also rotate: d/2 complex poles, whose two parts serve a channel each."""

    def _build(self) -> None:
        n = self.d // 2
        self.rate_raw = self._stacked(_softplus_inverse(1 / np.geomspace(4, 1000, n)))
        self.frequency = self._stacked(np.linspace(0.0, np.pi / 4, n))

    def weights(self, e: Tensor) -> Tensor:
        """Real and imaginary parts of the poles' powers, (S, 1, T, d)."""
        poles = torch.complex(-softplus(self.rate_raw), self.frequency)
        powers = fixed_weights(poles, e.shape[-2])
        return torch.cat([powers.real, powers.imag], dim=-1)


class Selective(RecallModel):
    """A selective state-space layer: step, write and read depend on the token."""

    def _build(self) -> None:
        self.read, self.write = self._linear(self.d, KEY_WIDTH), self._linear(self.d, KEY_WIDTH)
        self.step_raw = self._linear(self.d, self.d, bias=-2.0)
        self.rate_raw = self._stacked(np.zeros(self.d))

    def steps(self, e: Tensor) -> Tensor:
        """Δ of each token and channel, (S, N, T, d)."""
        return softplus(self.step_raw(e))

    def weights(self, e: Tensor) -> Tensor:
        """What later tokens have let stand, (S, N, T, d)."""
        q, k = self.read(e[..., -1, :]), self.write(e)
        return selective_weights(q, k, self.steps(e), softplus(self.rate_raw))


class Hybrid(WindowAttention):
    """A selective layer, whose output each token adds to its embedding; then window attention."""

    def _build(self) -> None:
        super()._build()
        self.read, self.write = self._linear(self.d, KEY_WIDTH), self._linear(self.d, KEY_WIDTH)
        self.step_raw = self._linear(self.d, self.d, bias=-2.0)
        self.rate_raw = self._stacked(np.zeros(self.d))
        self.inner_value, self.inner_gate = (self._linear(self.d, self.d) for _ in range(2))
        self.inner_output = self._linear(self.d, self.d)

    def embed(self, tokens: Tensor) -> Tensor:
        """The last `WINDOW` embeddings, with the selective layer's outputs added."""
        e = super().embed(tokens)
        y = selective_outputs(
            self.read(e), self.write(e), self.inner_value(e), softplus(self.step_raw(e)),
            softplus(self.rate_raw), WINDOW,
        )  # fmt: skip
        e = e[..., -WINDOW:, :]
        return e + self.inner_output(y * silu(self.inner_gate(e)))


MODELS: dict[str, type[RecallModel]] = {
    "attention": Attention,
    "window": WindowAttention,
    "linear attention": LinearAttention,
    "fast decay": FastDecay,
    "slow decay": SlowDecay,
    "complex decay": ComplexDecay,
    "selective": Selective,
    "hybrid": Hybrid,
}

# ------------------------------------------------------------------------ training and scoring


def train_recall(
    model: RecallModel,
    task: Task,
    *,
    T: int = 48,
    recipe: Recipe = RECIPE,
    progress: Progress | None = None,
) -> Floats:
    """Train S models at once, each on sequences of its own, drawn anew at every step.

    Args:
        model: changed in place.
        task: what to draw; its token width must be the model's.
        T: tokens a sequence.
        recipe: Adam with a cosine-annealed rate; `batch_size` sequences a model and step.
        progress: wraps the range of steps, as in `training.train_together`.

    Returns:
        Array (steps, S): the mean squared error of each batch before its update.

    Raises:
        TrainingDiverged: a loss became NaN or infinite; it names the step.
        ValueError: the recipe has no batch size, or the task does not fit T or the model.
    """
    if recipe.batch_size is None:
        raise ValueError("recipe must have a batch_size: there is no fixed data set here")
    rngs = [np.random.default_rng([BATCHES, seed]) for seed in model.seeds]
    adam = torch.optim.Adam(
        model.parameters(), betas=(recipe.beta1, recipe.beta2), eps=recipe.epsilon
    )
    losses, steps = np.empty((recipe.steps, len(rngs))), range(recipe.steps)
    for step in steps if progress is None else progress(steps):
        batches = [task.draw(rng, recipe.batch_size, T) for rng in rngs]
        targets = _tensor(np.stack([batch.targets for batch in batches]))
        answers = model(_tensor(np.stack([batch.tokens for batch in batches])))
        loss = (answers - targets).square().mean(dim=1)
        losses[step] = loss.detach().double().numpy()
        if not np.isfinite(losses[step]).all():
            raise TrainingDiverged(step, int((~np.isfinite(losses[step])).argmax()))
        for group in adam.param_groups:
            group["lr"] = recipe.learning_rate * cosine_rate(step, recipe.steps)
        adam.zero_grad()
        loss.sum().backward()
        adam.step()
    return losses


@torch.no_grad()
def score(model: RecallModel, batch: Batch, chunk: int = 128) -> Floats:
    """Relative error of each of the S models on the same sequences, (S,); 1 = knows nothing."""
    tokens = _tensor(batch.tokens)
    answers = torch.cat([model(part) for part in tokens.split(positive_int("chunk", chunk))], dim=1)
    return relative_error(answers.double().numpy(), batch.targets)


def held_out(task: Task, T: int, at: int, N: int = 512) -> Batch:
    """The N held-out sequences that all models share at one length and distance (or item count).

    `at` = 0 stands for sequences drawn as in training.
    """
    rng = np.random.default_rng([TEST, T, positive_int("at", at, minimum=0)])
    if at == 0:
        return task.draw(rng, N, T)
    key = "items" if hasattr(task, "most") else "distance"
    return task.draw(rng, N, T, **{key: at})


def error_profile(
    model: RecallModel, task: Task, at: Sequence[int], T: int = 48, N: int = 512
) -> Floats:
    """Relative errors (S, len(at)): how well each model does at each distance (or item count)."""
    return np.stack([score(model, held_out(task, T, a, N)) for a in at], axis=1)


def level(errors: Any) -> str:
    """Name the size of the mean error: exact, close, roughly, partly, little or nothing.

    They stand for below 0.002, 0.06, 0.28, 0.57, 0.9, and from 0.9 on. Words are what a chapter may
    store: digits of trained models differ from one processor to another.

    Raises:
        ValueError: an error is NaN or infinite.
    """
    mean = float(finite("errors", np.asarray(errors, dtype=float)).mean())
    return LEVELS[int(np.searchsorted(LEVEL_EDGES, mean, side="right"))]


LEVELS = ("exact", "close", "roughly", "partly", "little", "nothing")
LEVEL_EDGES = (0.002, 0.06, 0.28, 0.57, 0.9)

# ------------------------------------------------------------------------------- the sweep

SEEDS = (0, 1, 2, 3, 4)
TRAINED_T, LONG_T = 48, 256
DISTANCES = (1, 2, 4, 8, 12, 15, 16, 20, 24, 32, 39)
FAR_DISTANCES = (16, 39, 64, 96, 128, 192, 247)
ITEMS = (1, 2, 4, 8, 12, 16)
FAR_ITEMS = (4, 8, 16, 32, 64, 128)

LONGER = 4  # times as many steps, for these:
LONGER_RUNS = (
    ("1 object, moved", "attention"),
    ("1 object, moved", "linear attention"),
    ("4 objects", "slow decay"),
    ("4 objects", "selective"),
    ("4 objects, moved", "attention"),
    ("4 objects, moved", "selective"),
)
LONGER_SEEDS = (0, 1, 2)


def sweep_settings() -> dict[str, Any]:
    """Everything that decides what the committed table holds; its hash is the table's stamp."""
    return {
        "models": list(MODELS),
        "seeds": SEEDS,
        "recipe": [RECIPE.steps, RECIPE.batch_size, RECIPE.learning_rate],
        "sizes": [20, 40, WINDOW, HEADS, KEY_WIDTH, FASTEST_ONLY],
        "T": [TRAINED_T, LONG_T],
        "distances": [DISTANCES, FAR_DISTANCES],
        "items": [ITEMS, FAR_ITEMS],
        "longer": [LONGER, LONGER_RUNS, LONGER_SEEDS],
        "version": 1,  # change this when a model or a task changes
    }


def longer(name: str) -> str:
    """What the table calls a model that was trained `LONGER` times as long."""
    return f"{name}, longer"


def sweep_entry(task: Task, name: str) -> tuple[list[int], dict[tuple[int, int], Floats]]:
    """Train one kind of model on one task and score it at every entry of the table.

    Args:
        task: the task.
        name: a key of `MODELS`, or `longer` of one.

    Returns:
        The seeds, and for each (T, at) their errors, (S,).
    """
    kind, long = name.removesuffix(longer("")), name.endswith(longer(""))
    model = MODELS[kind](task.width, LONGER_SEEDS if long else SEEDS)
    steps = RECIPE.steps * (LONGER if long else 1)
    train_recall(model, task, T=TRAINED_T, recipe=replace(RECIPE, steps=steps))
    near, far = (ITEMS, FAR_ITEMS) if hasattr(task, "most") else (DISTANCES, FAR_DISTANCES)
    entries = [(TRAINED_T, 0), *((TRAINED_T, a) for a in near), *((LONG_T, a) for a in far)]
    return model.seeds, {key: score(model, held_out(task, *key)) for key in entries}


def _softplus_inverse(y: Floats) -> Floats:
    return np.log(np.expm1(y))


def _tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(values).to(torch.get_default_dtype())
