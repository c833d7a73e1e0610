"""The figure of the chapter "What to remember"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from . import style

Floats = NDArray[np.float64]


@style.styled
def forgetting(lag: Floats, curves: Mapping[str, Floats]) -> Figure:
    """What each memory still tells about a token, against how many tokens ago it was.

    Args:
        lag: ages (n,), all above zero, ascending.
        curves: by the memory's name, the share (n,) of a readout that is due to the token.
    """
    figure, axes = style.new_figure(4.4)
    panel = axes[0, 0]
    for series, (name, share) in zip(style.SERIES, curves.items(), strict=False):
        panel.plot(lag, share, label=name, markevery=0.12, **_drawn(series))
    panel.set(xscale="log", ylim=(-0.03, 1.05))
    style.label(panel, x="tokens since the one that is asked for", y="share of the readout")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _drawn(series: Mapping[str, Any]) -> dict[str, Any]:
    return {**series, "markersize": 4.5}


def _after(tokens: float) -> str:
    return "after 1 token" if tokens == 1 else f"after {tokens:.0f} tokens"


def describe_forgetting(lag: Floats, curves: Mapping[str, Floats]) -> str:
    """At which age each memory's share falls below one half."""
    said = []
    for name, share in curves.items():
        below = np.flatnonzero(np.asarray(share) < 0.5)
        said.append(f"{name}: {_after(lag[below[0]]) if below.size else 'not in this picture'}")
    return (
        "How much of what is read is still the thing asked for, against how long ago it came by. "
        f"Half of it is lost, for {'; '.join(said)}."
    )
