"""Right answers and typical mistakes in “A transformer and an SSM learn the same world”."""

import math

import numpy as np
import torch

from book_utils import evaluation


def line_up(readings, controls, targets, *, first=0.0, swap=False):
    """An answer made of slices; each wrong one differs in one of them."""

    def answer(y, u):
        column = np.array(y[readings], dtype=float)
        if first is not None:
            column[0] = first
        pair = (u[controls], column) if swap else (column, u[controls])
        return np.stack(pair, axis=-1), y[targets]

    return answer


NOW, NEXT, ALL = slice(None, -1), slice(1, None), slice(None)


def in_place(y, u):
    y[0] = 0.0
    return np.stack([y[:-1], u], -1), y[1:]


def controls_late(y, u):
    late = np.r_[0.0, u[:-1]]
    return np.stack([np.r_[0.0, y[1:-1]], late], -1), y[1:]


def rolled(*, copy=True, slide=False, truth=False, late=False, mute=False, start=0):
    """Rollouts with one slip each."""

    def answer(forecast, tokens, warm):
        tokens = tokens.copy() if copy else tokens
        if truth:
            return forecast(tokens)[warm:]
        if late:
            tokens[1:, 1] = tokens[:-1, 1].copy()
        if mute:
            tokens[warm + 1 :, 1] = 0.0
        history, result = list(tokens[: warm + 1 + start]), []
        for t in range(warm + start, len(tokens)):
            result.append(float(forecast(np.array(history))[-1]))
            if t + 1 < len(tokens):
                if slide:
                    history.pop(0)
                history.append(np.array([result[-1], tokens[t + 1, 1]]))
                if not copy:
                    tokens[t + 1, 0] = result[-1]
        return np.array(result)[-(len(tokens) - warm) :]

    return answer


def step(change):
    """A filter step in which `change` may replace any of the intermediate values."""

    def answer(m, P, u, y, a, b, c, Q, R):
        v = {"prior": a * m + b * u, "spread": a * a * P + Q}
        v.update(change("prior", m=m, P=P, u=u, y=y, a=a, b=b, c=c, Q=Q, R=R, **v))
        v["forecast"], v["V"] = c * v["prior"], c * c * v["spread"] + R
        v["K"] = v["spread"] * c / v["V"]
        v["m"] = v["prior"] + v["K"] * (y - v["forecast"])
        v["P"] = (1 - v["K"] * c) * v["spread"]
        given = {"y": y, "a": a, "b": b, "c": c, "Q": Q, "R": R, "old_m": m, "old_P": P}
        v.update(change("end", given=given, v=v))
        return v["forecast"], v["V"], v["m"], v["P"]

    return answer


def at_end(make):
    return step(lambda when, given=None, v=None, **_: make(v, given) if when == "end" else {})


def floor(*, late=False, noise=1.0, sensor=1.0, transpose=False, root=False, total=False):
    def answer(P, A, C, Q, R, H):
        A, V = (A.T if transpose else A), []
        for _ in range(H):
            if late:
                V.append(C @ P @ C + R)
            P = A @ P @ A.T + noise * Q
            if not late:
                V.append(C @ P @ C + sensor * R)
        V = np.array(V)
        return np.sqrt(V) if root else np.cumsum(V) if total else V

    return answer


def floor_by_powers(P, A, C, Q, R, H):
    power = np.linalg.matrix_power
    spread = [sum(power(A, j) @ Q @ power(A, j).T for j in range(h)) for h in range(1, H + 1)]
    start = [power(A, h) @ P @ power(A, h).T for h in range(1, H + 1)]
    return [C @ (p + s) @ C + R for p, s in zip(start, spread, strict=True)]


def floor_in_place(P, A, C, Q, R, H):
    V = []
    for _ in range(H):
        P[:] = A @ P @ A.T + Q
        V.append(C @ P @ C + R)
    return V


RIGHT = [
    ("count", 2273),
    ("count", "2273"),
    ("count", np.int64(34 * 64 + 97)),
    ("line_up", line_up(NOW, ALL, NEXT)),
    (
        "line_up",
        lambda y, u: [
            torch.stack([torch.tensor(np.r_[0.0, y[1:-1]]), torch.tensor(u)], 1),
            torch.tensor(y[1:]),
        ],
    ),
    ("lag_profile", lambda w: np.flip(w[:, -1].mean(0))),
    ("lag_profile", lambda w: [w[:, -1, w.shape[1] - 1 - k].mean() for k in range(w.shape[1])]),
    ("lag_profile", lambda w: torch.tensor(w)[:, -1].flip(-1).mean(0)),
    ("filter_step", at_end(lambda v, g: {})),
    ("filter_step", at_end(lambda v, g: {"P": 1 / (1 / v["spread"] + g["c"] ** 2 / g["R"])})),
    ("filter_step", lambda *numbers: np.array(at_end(lambda v, g: {})(*numbers))),
    ("filter_step", lambda *numbers: torch.tensor(at_end(lambda v, g: {})(*numbers))),
    ("golden", 2.618),
    ("golden", "2.6180"),
    ("golden", ((1 + 5**0.5) / 2) ** 2),
    ("line_up", in_place),  # each answer gets copies, so it may overwrite them
    ("open_loop_floor", floor_in_place),
    ("roll_out", rolled(copy=False)),
    ("open_loop_floor", floor()),
    ("open_loop_floor", floor_by_powers),
    ("roll_out", rolled()),
    (
        "roll_out",
        lambda f, x, w: evaluation.open_loop_rollout(lambda h: f(h[0])[None], x[None], w)[0],
    ),
]

WRONG = [
    ("count", 2370, "do not grow"),
    ("count", 2273 - 64, "decays"),
    ("count", 2273 - 16, "skip"),
    ("count", 2273 - 80, "Two biases"),
    ("count", 2273 - 17, "head is missing"),
    ("count", 2273 - 48, "embedding is missing"),
    ("count", 2048, "two large maps alone"),
    ("count", 2273 - 64 + 4096, "full 64 × 64"),
    ("count", 2000, "one by one"),
    ("count", "many", "single number"),
    ("line_up", line_up(NOW, ALL, NOW), "That is the leak"),
    ("line_up", line_up(NEXT, ALL, NEXT, first=None), "their own target"),
    ("line_up", line_up(NOW, ALL, NEXT, first=None), "placeholder 0"),
    ("line_up", line_up(NOW, ALL, NEXT, swap=True), "changed places"),
    ("line_up", lambda y, u: (np.stack([0 * u, u], -1), y[1:]), "should be the readings"),
    ("line_up", lambda y, u: (np.stack([y[:-1], u], -1), y[1:][::-1]), "slots 1 to T"),
    ("line_up", controls_late, "one late"),
    ("line_up", lambda y, u: (np.stack([np.r_[0, y[1:-1]], -u], -1), y[1:]), "control u_t"),
    ("line_up", lambda y, u: np.stack([y[:-1], u], -1), "Return two things"),
    ("line_up", lambda y, u: (np.stack([y[:-1], u]), y[1:]), "should have shape"),
    ("lag_profile", lambda w: w[:, -1].mean(0), "oldest token"),
    ("lag_profile", lambda w: w[:, -1, ::-1].sum(0), "take the mean"),
    ("lag_profile", lambda w: w[0, -1, ::-1], "first matrix alone"),
    ("lag_profile", evaluation.pooled_attention_by_lag, "pools over all queries: early"),
    (
        "lag_profile",
        lambda w: [np.trace(w.mean(0), -k) / w.shape[1] for k in range(w.shape[1])],
        "divides by L",
    ),
    ("lag_profile", lambda w: w[:, ::-1, -1].mean(0), "Queries are rows"),
    ("lag_profile", lambda w: w[:, :, -1].mean(0), "Queries are rows"),
    ("lag_profile", lambda w: w.mean((0, 1))[::-1], "averages over the queries"),
    ("lag_profile", lambda w: w[:, 0].mean(0), "It sums to 1.000"),
    ("lag_profile", lambda w: w[:, -1], "should have shape"),
    ("lag_profile", lambda w: None, "returned None"),
    ("filter_step", at_end(lambda v, g: {"forecast": v["prior"]}), "multiply the predicted"),
    (
        "filter_step",
        at_end(lambda v, g: {"forecast": g["c"] * g["a"] * g["old_m"]}),
        "control is left out",
    ),
    ("filter_step", at_end(lambda v, g: {"forecast": g["c"] * g["old_m"]}), "move on first"),
    ("filter_step", at_end(lambda v, g: {"forecast": g["c"] * v["m"]}), "meant to forecast"),
    ("filter_step", at_end(lambda v, g: {"V": v["spread"]}), "that of the state"),
    ("filter_step", at_end(lambda v, g: {"V": v["V"] - g["R"]}), "R is left out"),
    (
        "filter_step",
        at_end(lambda v, g: {"V": (g["c"] * g["a"]) ** 2 * g["old_P"] + g["R"]}),
        "Q is left out",
    ),
    (
        "filter_step",
        at_end(lambda v, g: {"V": g["c"] ** 2 * g["old_P"] + g["R"]}),
        "before the world has moved",
    ),
    ("filter_step", at_end(lambda v, g: {"V": math.sqrt(v["V"])}), "standard deviation"),
    ("filter_step", at_end(lambda v, g: {"m": v["prior"]}), "reading is not used"),
    ("filter_step", at_end(lambda v, g: {"m": v["prior"] + v["K"] * g["y"]}), "not y itself"),
    ("filter_step", at_end(lambda v, g: {"m": 2 * v["prior"] - v["m"]}), "sign of the innovation"),
    (
        "filter_step",
        at_end(
            lambda v, g: {
                "m": v["prior"]
                + g["old_P"]
                * g["c"]
                / (g["c"] ** 2 * g["old_P"] + g["R"])
                * (g["y"] - v["forecast"])
            }
        ),
        "gain uses the old variance",
    ),
    ("filter_step", at_end(lambda v, g: {"P": v["spread"]}), "not updated"),
    ("filter_step", at_end(lambda v, g: {"P": g["old_P"]}), "the old one"),
    ("filter_step", at_end(lambda v, g: {"P": v["spread"] - v["K"] ** 2}), "multiplied by V"),
    ("filter_step", at_end(lambda v, g: {"P": 2 * v["spread"] - v["P"]}), "only lessen"),
    (
        "filter_step",
        at_end(lambda v, g: {"P": g["old_P"] - v["K"] ** 2 * v["V"]}),
        "off the predicted variance",
    ),
    ("filter_step", at_end(lambda v, g: {"P": 7.0}), "the new variance it gives 7.0000"),
    ("filter_step", lambda m, P, u, y, a, b, c, Q, R: (m, P), "Return four things"),
    ("golden", 1.618, "predicted state"),
    ("golden", 0.618, "after the update"),
    ("golden", 2, "known exactly"),
    ("golden", 1, "noise alone"),
    ("golden", 3, "let the filter settle"),
    ("golden", 1.618034, "sensor's noise comes on top"),
    ("golden", 2.6, "three decimals"),
    ("open_loop_floor", floor(noise=0.0), "process noise Q"),
    ("open_loop_floor", floor(sensor=0.0), "sensor's noise R"),
    ("open_loop_floor", floor(late=True), "horizon 0"),
    ("open_loop_floor", floor(transpose=True), "transpose"),
    ("open_loop_floor", floor(root=True), "standard deviations"),
    ("open_loop_floor", floor(total=True), "summed up"),
    (
        "open_loop_floor",
        lambda P, A, C, Q, R, H: [
            C @ (np.linalg.matrix_power(A, h) @ P @ np.linalg.matrix_power(A, h).T + Q) @ C + R
            for h in range(1, H + 1)
        ],
        "added once",
    ),
    ("open_loop_floor", lambda P, A, C, Q, R, H: np.ones(H), "For a random system"),
    ("open_loop_floor", lambda P, A, C, Q, R, H: np.ones(H + 1), "should have shape"),
    ("roll_out", rolled(truth=True), "no rollout"),
    ("roll_out", rolled(slide=True), "positions have shifted"),
    ("roll_out", rolled(late=True), "one slot late"),
    ("roll_out", rolled(mute=True), "controls after the warm start"),
    ("roll_out", rolled(start=-1), "one reading too short"),
    ("roll_out", lambda f, x, w: np.zeros(len(x) - w), "it gives"),
    ("roll_out", lambda f, x, w: f(x), "should have shape"),
    ("roll_out", "forecast", "function is needed"),
    ("roll_out", lambda f, x, w: 1 / 0, "ZeroDivisionError"),
]
