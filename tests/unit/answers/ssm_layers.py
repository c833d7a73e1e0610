"""Right answers and typical mistakes in “Structured and selective recurrences”."""

import math

import numpy as np
import torch

from book_utils import linear_attention as linear
from book_utils import selective


def states(keep=None, write=None, late=False):
    """A reader's loop with one part changed."""

    def run(x, dt, a, B):
        h, out = 0.0, []
        for t in range(len(x)):
            k = math.exp(dt[t] * a) if keep is None else keep(dt, a, t)
            w = math.expm1(dt[t] * a) / a * B[t] * x[t] if write is None else write(x, dt, a, B, t)
            if late:
                out.append(h)
            h = k * h + w
            if not late:
                out.append(h)
        return np.array(out)

    return run


def by_package(x, dt, a, B):
    x, dt, B = (torch.from_numpy(z)[:, None] for z in (x, dt, B))
    one = torch.ones_like(B)
    A = torch.tensor([[a]], dtype=torch.float64)
    return selective.selective_scan(x, dt, A, B, one, write="zoh")[:, 0]


def step(new_S=None, new_c=None, out=None):
    """A reader's attention step with one part changed."""

    def run(S, c, q, k, v):
        S_new = S + np.outer(k, v) if new_S is None else new_S(S, q, k, v)
        c_new = c + k if new_c is None else new_c(c, q, k)
        o = S_new.T @ q / (c_new @ q) if out is None else out(S, c, S_new, c_new, q, k)
        return S_new, c_new, o

    return run


def in_place(S, c, q, k, v):
    S += np.outer(k, v)
    c += k
    return S, c, S.T @ q / (c @ q)


def with_torch(S, c, q, k, v):
    S, c, q, k, v = (torch.from_numpy(z) for z in (S, c, q, k, v))
    S, c = S + torch.outer(k, v), c + k
    return S, c, S.T @ q / (c @ q)


def householder(S, k, v):
    return (np.eye(len(k)) - np.outer(k, k)) @ S + np.outer(k, v)


def torch_delta(S, k, v):
    return linear.delta_write(*(torch.from_numpy(z) for z in (S, k, v)))


def delta(change):
    return lambda S, k, v: S + change(S, k, v)


RIGHT = [
    ("key_width", 1584),
    ("key_width", "1584"),
    ("reach", 221.8),
    ("reach", 221.83),
    ("step_for_gate", lambda g: -np.log(1 - g)),
    ("step_for_gate", lambda g: torch.tensor(1 / (1 - g)).log()),
    ("selective_states", states()),
    ("selective_states", by_package),
    ("attention_step", step()),
    ("attention_step", with_torch),
    ("attention_step", in_place),
    ("attention_step", lambda *z: list(step()(*z))),
    ("overwrite", householder),
    ("overwrite", torch_delta),
]

WRONG = [
    ("key_width", 396, "square root"),
    ("key_width", 400, "99 others"),
    ("key_width", 1600, "not by all 100"),
    ("key_width", 6.1875, "should divide"),
    ("key_width", 24.75, "square is missing"),
    ("key_width", 100, "orthogonal"),
    ("key_width", 7, "7 is not it"),
    ("key_width", 1616, "taken off"),
    ("reach", 6655, "30 of them in a second"),
    ("reach", 204.8, "own segment"),
    ("reach", 34.1, "itself listened"),
    ("reach", 17.07, "one memory alone"),
    ("reach", 17.03, "alone"),
    ("reach", 204.76, "own segment"),
    ("reach", 199650, "you multiplied"),
    ("reach", 50, "50 is not it"),
    ("reach", 6656 / 30, "own age is 0"),
    ("reach", 3.697, "in minutes"),
    ("reach", 13 * 512 / 30, "One token too many"),
    ("step_for_gate", lambda g: -math.log(g), "keeps the share g"),
    ("step_for_gate", lambda g: math.log(1 - g), "sign is turned round"),
    ("step_for_gate", lambda g: g, "shortcut"),
    ("step_for_gate", lambda g: 1 - math.exp(-g), "turn it round"),
    ("step_for_gate", lambda g: -math.log10(1 - g), "natural logarithm"),
    ("step_for_gate", lambda g: math.log(g / (1 - g)), "softplus"),
    ("step_for_gate", lambda g: 5.0, "should be 0.3567, not 5.0000"),
    ("step_for_gate", 0.5, "A function is needed"),
    ("step_for_gate", lambda g: 1 - g, "take its logarithm"),
    ("step_for_gate", lambda g: 1 / (1 + math.exp(-g)), "through a sigmoid"),
    ("step_for_gate", lambda g: math.log1p(math.exp(g)), "softplus of g"),
    ("selective_states", states(write=lambda x, dt, a, B, t: dt[t] * B[t] * x[t]), "shortcut"),
    (
        "selective_states",
        states(write=lambda x, dt, a, B, t: math.expm1(dt[t] * a) / a * x[t]),
        "B is missing",
    ),
    (
        "selective_states",
        states(write=lambda x, dt, a, B, t: -math.expm1(dt[t] * a) / a * B[t] * x[t]),
        "sign is turned round",
    ),
    (
        "selective_states",
        states(write=lambda x, dt, a, B, t: math.expm1(dt[t] * a) / a / dt[t] * B[t] * x[t]),
        "not by Δa",
    ),
    ("selective_states", states(write=lambda x, dt, a, B, t: B[t] * x[t]), "not depend on the"),
    ("selective_states", states(keep=lambda dt, a, t: math.exp(dt[0] * a)), "first token's"),
    ("selective_states", states(keep=lambda dt, a, t: 1.0), "Nothing fades"),
    ("selective_states", states(keep=lambda dt, a, t: 0.0), "writes alone"),
    ("selective_states", states(late=True), "One token late"),
    ("selective_states", states(keep=lambda dt, a, t: 0.5), "numbers are not"),
    ("selective_states", lambda x, dt, a, B: states()(x, dt, a, B)[-1], "one state"),
    (
        "selective_states",
        states(write=lambda x, dt, a, B, t: math.expm1(dt[t] * a) * B[t] * x[t]),
        "Divide by a",
    ),
    (
        "selective_states",
        states(write=lambda x, dt, a, B, t: -math.expm1(dt[t] * a) * B[t] * x[t]),
        "Divide by a",
    ),
    (
        "selective_states",
        states(keep=lambda dt, a, t: math.exp(-dt[t] * a)),
        "a is negative already",
    ),
    ("selective_states", states(keep=lambda dt, a, t: math.exp(a)), "must depend on the step"),
    ("selective_states", states(keep=lambda dt, a, t: 1 + dt[t] * a), "Euler's 1 + Δa"),
    (
        "selective_states",
        states(
            write=lambda x, dt, a, B, t: (
                math.exp(dt[t] * a) * math.expm1(dt[t] * a) / a * B[t] * x[t]
            )
        ),
        "fade first",
    ),
    ("attention_step", lambda *z: None, "return statement"),
    ("attention_step", lambda *z: step()(*z)[:2], "three things"),
    ("attention_step", step(new_S=lambda S, q, k, v: S), "S has not changed"),
    ("attention_step", step(new_S=lambda S, q, k, v: S + np.outer(q, v)), "under its key"),
    ("attention_step", step(new_S=lambda S, q, k, v: np.outer(k, v)), "old S is lost"),
    ("attention_step", step(new_S=lambda S, q, k, v: 2 * S), "not S + k vᵀ"),
    ("attention_step", step(new_c=lambda c, q, k: c), "c has not changed"),
    ("attention_step", step(new_c=lambda c, q, k: c + q), "not the queries"),
    ("attention_step", step(new_c=lambda c, q, k: c + 1), "how many"),
    ("attention_step", step(new_c=lambda c, q, k: 3 * c), "not c + k"),
    ("attention_step", step(out=lambda S, c, Sn, cn, q, k: Sn.T @ q), "not divided"),
    ("attention_step", step(out=lambda S, c, Sn, cn, q, k: S.T @ q / (c @ q)), "before it writes"),
    ("attention_step", step(out=lambda S, c, Sn, cn, q, k: Sn.T @ q / (c @ q)), "old c"),
    ("attention_step", step(out=lambda S, c, Sn, cn, q, k: Sn.T @ k / (cn @ k)), "with the query"),
    ("attention_step", step(out=lambda S, c, Sn, cn, q, k: Sn.T @ q / cn.sum()), "sum of c"),
    ("attention_step", step(out=lambda S, c, Sn, cn, q, k: 0 * (Sn.T @ q)), "the output is not"),
    (
        "attention_step",
        step(new_S=lambda S, q, k, v: S + np.outer(v, k)),
        "outer product is transposed",
    ),
    ("attention_step", step(new_S=lambda S, q, k, v: S + k * v), "entry by entry"),
    ("attention_step", step(new_S=lambda S, q, k, v: S + k @ v), "single number"),
    ("attention_step", step(new_c=lambda c, q, k: k), "old c is lost"),
    ("attention_step", step(out=lambda S, c, Sn, cn, q, k: Sn @ q / (cn @ q)), "not with S q"),
    ("attention_step", step(out=lambda S, c, Sn, cn, q, k: S.T @ q / (cn @ q)), "reads the old S"),
    (
        "attention_step",
        step(out=lambda S, c, Sn, cn, q, k: Sn.T @ q / (k @ q)),
        "not just the last",
    ),
    (
        "attention_step",
        step(out=lambda S, c, Sn, cn, q, k: Sn.T @ q / np.linalg.norm(cn)),
        "length of c",
    ),
    ("overwrite", delta(lambda S, k, v: np.outer(k, v)), "both places at once"),
    ("overwrite", delta(lambda S, k, v: -np.outer(k, S.T @ k)), "new one is not written"),
    ("overwrite", delta(lambda S, k, v: np.outer(k, v + S.T @ k)), "you added it"),
    ("overwrite", delta(lambda S, k, v: np.outer(k, S.T @ k - v)), "turned round"),
    ("overwrite", delta(lambda S, k, v: 0), "Nothing has changed"),
    ("overwrite", lambda S, k, v: np.outer(k, v), "orthogonal to it have changed"),
    ("overwrite", delta(lambda S, k, v: 1.0), "does not"),
    ("overwrite", delta(lambda S, k, v: -np.outer(k, v)), "takes the new value off"),
    ("overwrite", delta(lambda S, k, v: np.outer(k, v - S.T @ k) / 2), "half the way"),
    ("overwrite", lambda S, k, v: S + np.outer(v - S.T @ k, k), "outer product is transposed"),
    ("overwrite", delta(lambda S, k, v: np.outer(k, v - S @ k)), "not S k"),
    ("overwrite", lambda S, k, v: (S + np.outer(k, v - S.T @ k)).T, "new S transposed"),
]
