r"""Linear probes, which ask whether the hidden state can be read off what a model computes.

A probe is least squares from features to states, $\hat s = W f + b$, fitted on some trajectories and
scored on others. It says what is *there* and linearly readable, not what the model uses. Its error
has a floor, the filter's own: no function of tokens 0 … t knows $s_t$ better on average than its
conditional mean, whose error is $P_{t|t}$ (`kalman.schedule`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._validate import finite, real_array, same_size
from .systems import Floats


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """An affine map from features to states.

    Attributes:
        weights: W, (states, features).
        bias: b, (states,).
    """

    weights: Floats
    bias: Floats

    def __call__(self, features: Any) -> Floats:
        """Estimated states (..., states) from features (..., f)."""
        f = finite("features", real_array("features", features))
        same_size("the last axis of features", f.shape[-1], "that of W", self.weights.shape[1])
        return f @ self.weights.T + self.bias

    def error(self, features: Any, states: Any) -> Floats:
        """Mean squared error of each state, (states,), over all leading axes."""
        estimates, truth = self(features), real_array("states", states)
        if estimates.shape != truth.shape:
            raise ValueError(f"states must have shape {estimates.shape}, got {truth.shape}")
        squared = (estimates - finite("states", truth)) ** 2
        return squared.reshape(-1, truth.shape[-1]).mean(axis=0)


def fit_probe(features: Any, states: Any) -> LinearProbe:
    r"""Fit $W, b$ by least squares; where features are redundant, the smallest W.

    Args:
        features: (..., f).
        states: (..., n), with the same leading axes.

    Raises:
        TypeError, ValueError: shapes do not fit, an entry is not finite, or there are no more
            examples than coefficients a state, so that any states at all could be fitted.
    """
    f = finite("features", real_array("features", features))
    s = finite("states", real_array("states", states))
    if f.ndim < 2 or s.ndim != f.ndim or f.shape[:-1] != s.shape[:-1] or f.shape[-1] == 0:
        raise ValueError(
            "features must have shape (..., f) and states (..., n) with the same leading axes, "
            f"got {f.shape} and {s.shape}"
        )
    f, s = f.reshape(-1, f.shape[-1]), s.reshape(-1, s.shape[-1])
    if len(f) <= f.shape[1] + 1:
        raise ValueError(
            f"features hold {len(f)} examples, but a probe has {f.shape[1] + 1} coefficients a "
            "state: it needs more examples than that"
        )
    mean_f, mean_s = f.mean(axis=0), s.mean(axis=0)
    weights = np.linalg.lstsq(f - mean_f, s - mean_s, rcond=None)[0].T
    return LinearProbe(weights, mean_s - weights @ mean_f)
