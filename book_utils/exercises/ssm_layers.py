"""Checkers of the exercises in "Structured and selective recurrences"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import Wrong, array, call, exercise, number


def _close(a: Any, b: Any, tolerance: float = 1e-8) -> bool:
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance))


def _as_numpy(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _name(found: np.ndarray, mistakes: list[tuple[Any, str]], otherwise: str) -> None:
    """Raise `Wrong` with the reason of the first mistake that gives what was found."""
    for wrong, why in mistakes:
        if np.shape(wrong) == np.shape(found) and _close(found, wrong, 1e-6):
            raise Wrong(why)
    raise Wrong(otherwise)


@exercise(
    "ssm_layers.key_width",
    hint="The relative error is about √((n − 1)/d_k). Set it to 1/4 and solve for d_k; mind the square.",
)
def key_width(answer: Any) -> str:
    """Key width at which 100 random keys are read back to a quarter."""
    value = number(answer)
    for wrong, why in (
        (396, "99/d_k should be (1/4)² = 1/16, not 1/4: the error has a square root."),
        (
            400,
            "The error has a square root; and a value is disturbed by the 99 others, not by 100.",
        ),
        (1600, "Nearly. A value is disturbed by the 99 others, not by all 100."),
        (99 / 16, "You multiplied by 1/16 where you should divide: more width, less error."),
        (24.75, "You multiplied by 1/4 where you should divide, and the square is missing."),
        (100, "That is the width for orthogonal keys. Random ones overlap."),
    ):
        if abs(value - wrong) < 0.4:
            raise Wrong(why)
    if abs(value - 1584) > 0.6:
        raise Wrong(f"{value:g} is not it: √((n − 1)/d_k) should be 1/4 with n = 100.")
    return "Sixteen times as many dimensions as rivals."


@exercise(
    "ssm_layers.reach",
    hint="Look at the figure of section 6.6: with blocks of 4, one layer hears 7 tokens back, two layers 11, "
    "three layers 15. What is the rule? Then divide by 30.",
)
def reach(answer: Any) -> str:
    """Seconds that a Transformer-XL of 12 layers hears back."""
    value = number(answer)
    for wrong, why in (
        (6655, "Those are tokens; there are 30 of them in a second."),
        (6144 / 30, "Each layer adds one memory, but the token also hears its own segment."),
        (1023 / 30, "That is one layer. A cached state has itself listened to earlier ones."),
        (512 / 30, "That is one memory alone; count the own segment and all twelve layers."),
        (511 / 30, "That is the own segment alone."),
        (
            (511 + 11 * 512) / 30,
            "The first layer already sees one memory: it is twelve times 512, not eleven.",
        ),
        (6655 * 30, "Divide by 30 tokens a second; you multiplied."),
    ):
        if abs(value - wrong) < 0.004 * wrong:
            raise Wrong(why)
    if abs(value - 6655 / 30) > 0.2:
        raise Wrong(f"{value:g} is not it: own segment, plus a memory for every layer, over 30.")
    return "Not quite four minutes, and the mug went ten minutes ago."


@exercise(
    "ssm_layers.step_for_gate",
    hint="The share that is kept is e^(−Δ) = 1 − g. Take logarithms; for tiny g, np.log1p keeps the digits.",
)
def step_for_gate(answer: Any) -> str:
    """Δ for which the exact hold with A = −1 writes the share g."""
    for g in (0.3, 0.9, 0.02):
        found = float(array(_as_numpy(call(answer, g)), ()))
        if _close(found, -math.log1p(-g), 1e-6):
            continue
        _name(
            np.asarray(found),
            [
                (np.asarray(-math.log(g)), "That keeps the share g; it should be written."),
                (np.asarray(math.log1p(-g)), "The sign is turned round: a step is positive."),
                (np.asarray(g), "That is Mamba's shortcut, where the write is Δ itself."),
                (np.asarray(1 - math.exp(-g)), "That is the gate of the step g; turn it round."),
                (
                    np.asarray(-math.log10(1 - g)),
                    "The decay is a power of e; use the natural logarithm.",
                ),
                (
                    np.asarray(math.log(g / (1 - g))),
                    "That is what goes into the softplus. The step is what comes out of it.",
                ),
            ],
            f"With g = {g:g} the step should be {-math.log1p(-g):.4f}, not {found:.4f}.",
        )
    tiny = float(array(_as_numpy(call(answer, 1e-17)), ()))
    if abs(tiny / 1e-17 - 1) > 1e-3:
        return "For a tiny g, np.log1p(-g) would keep more digits than np.log(1 - g)."
    return "A gate of one half is a step of ln 2."


@exercise(
    "ssm_layers.selective_states",
    hint="Loop over the tokens. Each keeps e^(Δₜa) of the state and writes (e^(Δₜa) − 1)/a · Bₜ · xₜ, all "
    "with its own Δₜ and Bₜ.",
)
def selective_states(answer: Any) -> str:
    """Selective recurrence of one state with the exact hold."""
    rng = np.random.default_rng(0)
    for T, a in ((6, -0.7), (1, -2.0), (9, -1.5)):
        x, B, dt = rng.normal(size=T), rng.normal(size=T), rng.uniform(0.1, 2, T)
        keep, size = np.exp(dt * a), np.expm1(dt * a) / a
        right = _run(keep, size * B * x)
        found = array(_as_numpy(call(answer, x, dt, a, B)), (T,))
        if _close(found, right):
            continue
        _name(
            found,
            [
                (_run(keep, dt * B * x), "The write is Δ B x, Mamba's shortcut; here the hold is asked for."),
                (_run(keep, size * x), "B is missing from the write."),
                (_run(keep, -size * B * x), "The sign is turned round: (e^(Δa) − 1)/a is positive."),
                (_run(keep, size / dt * B * x), "Divide by a, not by Δa."),
                (_run(keep, B * x), "The write does not depend on the step."),
                (
                    _run(np.full(T, keep[0]), size * B * x),
                    "The multiplier is the first token's throughout; each token has its own.",
                ),
                (
                    np.r_[0.0, right[:-1]],
                    "One token late: h_t has already seen x_t.",
                ),
                (
                    keep * _run(keep, np.r_[0.0, (size * B * x)[:-1]]) + 0 * x,
                    "One token late: h_t has already seen x_t.",
                ),
                (size * B * x, "Those are the writes alone; the state keeps what was there."),
                (np.cumsum(size * B * x), "Nothing fades: the state is multiplied by e^(Δa) first."),
            ],
            "The shape is right, the numbers are not: keep e^(Δa) of h, then add the write.",
        )  # fmt: skip
    return "Given the coefficients it is a linear recurrence; a scan could do it as well."


def _run(keep: np.ndarray, write: np.ndarray) -> np.ndarray:
    h, states = 0.0, []
    for keep_t, write_t in zip(keep, write, strict=True):
        h = keep_t * h + write_t
        states.append(h)
    return np.array(states)


@exercise(
    "ssm_layers.attention_step",
    hint="np.outer(k, v) has one row a key entry and one column a value entry, like S. A token may read "
    "itself, so write before you read.",
)
def attention_step(answer: Any) -> str:
    """One step of normalised linear attention."""
    rng = np.random.default_rng(0)
    for d_k, d_v in ((3, 2), (4, 4), (1, 3)):
        q, k, c = rng.uniform(0.1, 1, (3, d_k))
        S, v = rng.normal(size=(d_k, d_v)), rng.normal(size=d_v)
        result = call(answer, S, c, q, k, v)
        if result is None:
            raise Wrong("Your function returned None; is a return statement missing?")
        if not isinstance(result, tuple | list) or len(result) != 3:
            raise Wrong("Return three things together: the new S, the new c and the output.")
        shapes = ((d_k, d_v), (d_k,), (d_v,))
        new_S, new_c, o = (
            array(_as_numpy(part), shape) for part, shape in zip(result, shapes, strict=True)
        )
        right_S, right_c = S + np.outer(k, v), c + k
        if not _close(new_S, right_S):
            wrong = [
                (S, "S has not changed: add the outer product of key and value."),
                (S + np.outer(q, v), "The write uses the query; a value is stored under its key."),
                (np.outer(k, v), "The old S is lost; add to it."),
            ]
            if d_k == d_v:
                wrong.append((S + np.outer(v, k), "The outer product is transposed: k vᵀ."))
            _name(new_S, wrong, "The new S is not S + k vᵀ.")
        if not _close(new_c, right_c):
            _name(
                new_c,
                [
                    (c, "c has not changed: it adds up the keys."),
                    (c + q, "c adds up the keys, not the queries."),
                    (c + 1, "c adds up the keys themselves, not how many there are."),
                ],
                "The new c is not c + k.",
            )
        right = right_S.T @ q / (right_c @ q)
        if not _close(o, right):
            wrong = [
                (right_S.T @ q, "The output is not divided by c·q."),
                (S.T @ q / (c @ q), "That reads before it writes; a token may read itself."),
                (right_S.T @ q / (c @ q), "The normaliser is the old c; use the new one."),
                (right_S.T @ k / (right_c @ k), "That reads with the key; read with the query."),
                (right_S.T @ q / right_c.sum(), "Divide by c·q, not by the sum of c."),
            ]
            if d_k == d_v:
                wrong.append((right_S @ q / (right_c @ q), "Read with Sᵀ q, not with S q."))
            _name(o, wrong, "S and c are right, the output is not.")
    return "No list, and the same outputs as the masked square."


@exercise(
    "ssm_layers.overwrite",
    hint="What does S return for k now? Call it old. Add the outer product of k with v − old.",
)
def overwrite(answer: Any) -> str:
    """The delta rule."""
    rng = np.random.default_rng(0)
    for d_k, d_v in ((4, 3), (3, 3), (2, 5)):
        S, v, k = rng.normal(size=(d_k, d_v)), rng.normal(size=d_v), rng.normal(size=d_k)
        k /= np.linalg.norm(k)
        found = array(_as_numpy(call(answer, S, k, v)), (d_k, d_v))
        old = S.T @ k
        if _close(found, S + np.outer(k, v - old)):
            continue
        if _close(found.T @ k, v):
            raise Wrong(
                "The key returns v, but keys orthogonal to it have changed; add a multiple of k to S."
            )
        wrong = [
            (S + np.outer(k, v), "The key now returns old + v, both places at once: subtract the old one."),
            (S - np.outer(k, old), "The old value is wiped, but the new one is not written."),
            (S + np.outer(k, v + old), "Subtract what the key holds; you added it."),
            (S + np.outer(k, old - v), "The difference is turned round: v − old."),
            (S, "Nothing has changed."),
        ]  # fmt: skip
        if d_k == d_v:
            wrong.append((S + np.outer(k, v - S @ k), "What the key holds is Sᵀk, not S k."))
            wrong.append(
                (S + np.outer(v - old, k), "The outer product is transposed: k (v − old)ᵀ.")
            )
        _name(found, wrong, "For the key k the new S should return v, and it does not.")
    return "The mug has moved, and the bowl has not noticed."
