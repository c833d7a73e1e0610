"""Checkers of the exercises in "Structured and selective recurrences"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import Wrong, array, call, close, exercise, explain, number, parts, shape_of


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
        (101 * 16, "The other 99 disturb a value: one is taken off, not added."),
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
        (6655 / 1800, "That is in minutes; seconds are asked for."),
        (6655 * 30, "Divide by 30 tokens a second; you multiplied."),
    ):
        if abs(value - wrong) < 0.004 * wrong:
            raise Wrong(why)
    if abs(value - 6656 / 30) < 0.01:
        raise Wrong(
            "One token too many: the last token's own age is 0, so its segment reaches back 511."
        )
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
        found, right = number(call(answer, g)), -math.log1p(-g)
        if close(found, right):
            continue
        explain(
            found,
            [
                (-math.log(g), "That keeps the share g; it should be written."),
                (math.log1p(-g), "The sign is turned round: a step is positive."),
                (g, "That is Mamba's shortcut, where the write is Δ itself."),
                (1 - g, "That is the multiplier e^(−Δ); take its logarithm."),
                (1 - math.exp(-g), "That is the gate of the step g; turn it round."),
                (-math.log10(1 - g), "The decay is a power of e; use the natural logarithm."),
                (1 / (1 + math.exp(-g)), "That takes g through a sigmoid; g is a share already."),
                (math.log1p(math.exp(g)),
                 "That is the softplus of g. It turns a free number into a step; g is a share."),
                (math.log(g / (1 - g)),
                 "That is what goes into the softplus. The step is what comes out of it."),
            ],
            f"With g = {g:g} the step should be {right:.4f}, not {found:.4f}.",
        )  # fmt: skip
    tiny = number(call(answer, 1e-17))
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
        result = call(answer, x, dt, a, B)
        if T > 1 and shape_of(result) == ():
            raise Wrong("That is one state; return all of them, h_1 to h_T.")
        found, write = array(result, (T,)), size * B * x
        if close(found, right):
            continue
        explain(
            found,
            [
                (_run(keep, dt * B * x), "The write is Δ B x, Mamba's shortcut; here the hold is asked for."),
                (_run(keep, size * x), "B is missing from the write."),
                (_run(keep, -write), "The sign is turned round: (e^(Δa) − 1)/a is positive."),
                (_run(keep, a * write), "Divide by a: the integral of e^(as) is e^(as)/a."),
                (_run(keep, a * -write), "Divide by a: the write is (e^(Δa) − 1)/a."),
                (_run(keep, write / dt), "Divide by a, not by Δa."),
                (_run(keep, B * x), "The write does not depend on the step."),
                (_run(keep, keep * write), "The write is multiplied by e^(Δa) of its own "
                 "token: let the state fade first, then add."),
                (_run(np.exp(-dt * a), write), "The sign is turned round in e^(Δa): a is negative already."),
                (_run(np.full(T, math.exp(a)), write), "The multiplier must depend on the step: e^(Δa)."),
                (_run(1 + dt * a, write), "That multiplier is Euler's 1 + Δa; the exact one is e^(Δa)."),
                (_run(np.full(T, keep[0]), write),
                 "The multiplier is the first token's throughout; each token has its own."),
                (np.r_[0.0, right[:-1]], "One token late: h_t has already seen x_t."),
                (keep * _run(keep, np.r_[0.0, write[:-1]]), "One token late: h_t has already seen x_t."),
                (write, "Those are the writes alone; the state keeps what was there."),
                (np.cumsum(write), "Nothing fades: the state is multiplied by e^(Δa) first."),
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
    for d_k, d_v in ((4, 4), (3, 2), (1, 3)):  # square first, where a transpose has the right shape
        q, k, c = rng.uniform(0.1, 1, (3, d_k))
        S, v = rng.normal(size=(d_k, d_v)), rng.normal(size=d_v)
        wanted = (("the new S", (d_k, d_v)), ("the new c", (d_k,)), ("the output", (d_v,)))
        new_S, new_c, o = parts(call(answer, S, c, q, k, v), wanted)
        right_S, right_c = S + np.outer(k, v), c + k
        if not close(new_S, right_S):
            explain(
                new_S,
                [
                    (S, "S has not changed: add the outer product of key and value."),
                    (S + np.outer(v, k), "The outer product is transposed: k vᵀ."),
                    (S + np.outer(q, v), "The write uses the query; a value is stored under its key."),
                    (np.outer(k, v), "The old S is lost; add to it."),
                    *(
                        ((S + k * v, "k * v multiplies entry by entry; np.outer(k, v) is k vᵀ."),
                         (S + k @ v, "k @ v is a single number; np.outer(k, v) is k vᵀ."))
                        if d_k == d_v else ()
                    ),
                ],
                "The new S is not S + k vᵀ.",
            )  # fmt: skip
        if not close(new_c, right_c):
            explain(
                new_c,
                [
                    (c, "c has not changed: it adds up the keys."),
                    (c + q, "c adds up the keys, not the queries."),
                    (c + 1, "c adds up the keys themselves, not how many there are."),
                    (k, "The old c is lost; add to it."),
                ],
                "The new c is not c + k.",
            )
        read = right_S.T @ q
        if not close(o, read / (right_c @ q)):
            explain(
                o,
                [
                    (read, "The output is not divided by c·q."),
                    (S.T @ q / (c @ q), "That reads before it writes; a token may read itself."),
                    (read / (c @ q), "The normaliser is the old c; use the new one."),
                    (S.T @ q / (right_c @ q), "That reads the old S; a token may read itself."),
                    (right_S.T @ k / (right_c @ k), "That reads with the key; read with the query."),
                    (read / right_c.sum(), "Divide by c·q, not by the sum of c."),
                    (read / np.linalg.norm(right_c), "Divide by c·q, not by the length of c."),
                    (read / (k @ q), "Divide by c·q: c adds up all keys, not just the last."),
                    *([(right_S @ q / (right_c @ q), "Read with Sᵀ q, not with S q.")]
                      if d_k == d_v else []),
                ],
                "S and c are right, the output is not.",
            )  # fmt: skip
    return "No list, and the same outputs as the masked square."


@exercise(
    "ssm_layers.overwrite",
    hint="What does S return for k now? Call it old. Add the outer product of k with v − old.",
)
def overwrite(answer: Any) -> str:
    """The delta rule."""
    rng = np.random.default_rng(0)
    for d_k, d_v in ((3, 3), (4, 3), (2, 5)):  # square first, where a transpose has the right shape
        S, v, k = rng.normal(size=(d_k, d_v)), rng.normal(size=d_v), rng.normal(size=d_k)
        k /= np.linalg.norm(k)
        found = array(call(answer, S, k, v), (d_k, d_v))
        old = S.T @ k
        if close(found, S + np.outer(k, v - old)):
            continue
        if close(found.T @ k, v):
            raise Wrong(
                "The key returns v, but keys orthogonal to it have changed; add a multiple of k to S."
            )
        explain(
            found,
            [
                (S + np.outer(k, v),
                 "The key now returns old + v, both places at once: subtract the old one."),
                (S - np.outer(k, v), "That takes the new value off: subtract the old one, add the new."),
                (S - np.outer(k, old), "The old value is wiped, but the new one is not written."),
                (S + np.outer(k, v + old), "Subtract what the key holds; you added it."),
                (S + np.outer(k, old - v), "The difference is turned round: v − old."),
                (S + np.outer(k, v - old) / 2, "That goes half the way: write the whole difference."),
                (S, "Nothing has changed."),
                (S.T + np.outer(v - old, k), "That is the new S transposed; rows belong to the key."),
                (S + np.outer(v - old, k), "The outer product is transposed: k (v − old)ᵀ."),
                *([(S + np.outer(k, v - S @ k), "What the key holds is Sᵀk, not S k.")]
                  if d_k == d_v else []),
            ],
            "For the key k the new S should return v, and it does not.",
        )  # fmt: skip
    return "The mug has moved, and the bowl has not noticed."
