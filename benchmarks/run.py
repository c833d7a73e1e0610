"""What the book's routes cost on this machine: ``make bench``.

Times are the best of several calls in this process, on one thread; compare the ratios within a run,
not times between runs. Memory is how much the resident set of a forked process grows at its peak
(Linux only); some ten MiB of it are the process itself. Nothing is stored as a truth: the tables
are printed, and a plot is written under --out.
"""

import argparse
import functools
import importlib.util
import math
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from book_utils import decoding, ssm, training
from book_utils.attention import causal_mask, scaled_dot_product_attention
from book_utils.efficient_attention import tiled_attention
from book_utils.evaluation import Forecaster, open_loop_rollout
from book_utils.models import FORECASTERS
from book_utils.systems import LinearGaussianSystem

Call = Callable[[], Any]

LENGTHS = (32, 256, 2048, 16384, 108000)
CHANNELS, STATES = 16, 64
BUDGET = 0.5  # seconds for the calls of one entry, after the first
LARGEST_GRAPH = 16384  # the doubling scan keeps 17 copies of all states for its gradient


# ------------------------------------------------------------------------------------- measuring


def best_time(call: Call) -> float:
    """Seconds of the quickest call: at least one after a first that warms up, at most 30."""
    started = time.perf_counter()
    call()
    if time.perf_counter() - started > 4 * BUDGET:
        return time.perf_counter() - started
    times: list[float] = []
    while len(times) < 1 or (sum(times) < BUDGET and len(times) < 30):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def peak_memory(call: Call) -> float:
    """Bytes by which a forked process grows at most during the call; NaN where that is unknown."""
    if not Path("/proc/self/clear_refs").exists():
        return math.nan
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_grow, args=(call, send))
    child.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:  # the child was killed: not enough memory
        return math.inf
    finally:
        child.join()


def _grow(call: Call, send: Any) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = _status("VmRSS")
    kept = call()
    send.send(float(_status("VmHWM") - before))
    del kept


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def bandwidth(megabytes: int = 256) -> float:
    """Bytes a second when a large array is copied: each is read once and written once."""
    source = torch.ones(megabytes * 2**18)
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / best_time(lambda: target.copy_(source))


def growth(lengths: Sequence[int], values: Sequence[float]) -> float:
    """Exponent α of value ∝ length^α, fitted to the two longest lengths or more (above 1,000)."""
    pairs = [(t, v) for t, v in zip(lengths, values, strict=True) if math.isfinite(v)]
    pairs = [pair for pair in pairs if pair[0] > 1000] or pairs
    if len(pairs) < 2:
        return math.nan
    t, v = np.log(np.array(pairs)).T
    return float(np.polyfit(t, v, 1)[0])


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns under a title, the first to the left and the others to the right."""
    print(f"\n{title}")
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]
        print("  ".join(cells).rstrip(), flush=True)


# ------------------------------------------------------------------------------- (a) all seeds at once


def seeds_together(seeds: int, steps: int) -> None:
    """Train S seeds in one call, one after another, and one alone."""
    recipe, rows = training.Recipe(steps=steps, batch_size=32), []
    for name in ("SSM", "transformer"):
        fit = functools.partial(
            training.fit_seeds, FORECASTERS[name], LinearGaussianSystem(), recipe=recipe
        )

        def seconds(chosen: range, fit: Any = fit) -> float:
            return fit(seeds=chosen).history.seconds

        seconds(range(1))
        one = np.median([seconds(range(s, s + 1)) for s in range(seeds)])
        alone = sum(seconds(range(s, s + 1)) for s in range(seeds))
        together = min(seconds(range(seeds)) for _ in range(2))
        rows.append(
            [name, f"{1e3 * together:.0f}", f"{together / one:.2f}", f"{together / alone:.2f}"]
        )
    head = ["", "ms together", "÷ one seed", "÷ one after another"]
    print_table(f"(a) {seeds} seeds, {steps} steps of 32 trajectories", head, rows)


# ------------------------------------------------------------------------------- (b) a diagonal SSM


def layer() -> list[Tensor]:
    """ā, B̄ and C of 16 systems with 64 states each, one input and one output."""
    rng = np.random.default_rng(0)
    a = np.exp(-np.geomspace(1e-3, 1, STATES)) * np.ones((CHANNELS, 1))
    arrays = a, rng.normal(size=(CHANNELS, STATES, 1)), rng.normal(size=(CHANNELS, 1, STATES))
    return [torch.tensor(z, dtype=torch.float32) for z in arrays]


def loop(a: Tensor, B: Tensor, C: Tensor, x: Tensor) -> Tensor:
    """The plain loop that stores every state."""
    h, states = torch.zeros_like(a), []
    for t in range(x.shape[1]):
        h = a * h + B[..., 0] * x[:, t]
        states.append(h)
    return (torch.stack(states, dim=1) * C).sum(dim=-1, keepdim=True)


def doubling(a: Tensor, B: Tensor, C: Tensor, x: Tensor) -> Tensor:
    """All states by `ssm.scan`."""
    return (ssm.scan(a[:, None], x * B.mT) * C).sum(dim=-1, keepdim=True)


def chunked(a: Tensor, B: Tensor, C: Tensor, x: Tensor) -> Tensor:
    """Chunks of 64."""
    return ssm.chunked_recurrence(a, B, C, x, 64)


def fft(a: Tensor, B: Tensor, C: Tensor, x: Tensor) -> Tensor:
    """The kernel, built anew, and a convolution."""
    return ssm.causal_convolution(ssm.kernel(a, B, C, x.shape[1]), x)


def pscan(a: Tensor, B: Tensor, C: Tensor, x: Tensor) -> Tensor:
    """The parallel scan of mambapy, which wants (batch, T, channels, states) of its own."""
    from mambapy.pscan import pscan as peer

    writes = (x * B.mT).transpose(0, 1)[None].contiguous()  # (1, T, 16, 64)
    states = peer(a.expand(writes.shape).contiguous(), writes)[0]
    return (states * C[:, 0]).sum(dim=-1).mT[..., None]


def associative(a: Tensor, B: Tensor, C: Tensor, x: Tensor) -> Tensor:
    """The associative scan of torch."""
    from torch._higher_order_ops import associative_scan

    writes = x * B.mT  # (16, T, 64)

    def compose(first: tuple[Tensor, Tensor], then: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return first[0] * then[0], then[0] * first[1] + then[1]

    pairs = a[:, None].expand(writes.shape).contiguous(), writes
    _, states = associative_scan(compose, pairs, dim=1, combine_mode="generic")
    return (states * C).sum(dim=-1, keepdim=True)


ROUTES = {
    "plain loop": loop,
    "doubling scan": doubling,
    "chunks of 64": chunked,
    "FFT": fft,
    "quickest (ssm.respond)": ssm.respond,
    "mambapy pscan": pscan,
    "torch associative scan": associative,
}


def runnable(name: str, T: int, *, backward: bool) -> bool:
    """Whether a route is installed and its memory within reason."""
    if name == "mambapy pscan":
        return importlib.util.find_spec("mambapy") is not None
    return not (
        backward and name in ("doubling scan", "torch associative scan") and T > LARGEST_GRAPH
    )


def diagonal_ssm(lengths: Sequence[int], *, backward: bool) -> dict[str, list[float]]:
    """Time every route at every length; prints tables of time and of memory."""
    parameters, seconds, memory = layer(), {}, {}
    x = torch.tensor(np.random.default_rng(1).normal(size=(CHANNELS, max(lengths), 1))).float()
    for name, route in ROUTES.items():
        seconds[name], memory[name] = [], []
        for T in lengths:
            call = functools.partial(_pass, route, parameters, x[:, :T], backward=backward)
            if not runnable(name, T, backward=backward):
                seconds[name].append(math.nan)
                memory[name].append(math.nan)
                continue
            found, right = route(*parameters, x[:, :T]), ssm.respond(*parameters, x[:, :T])
            if (found - right).abs().max() > 1e-4 * right.abs().max():
                raise AssertionError(f"{name} differs from ssm.respond at T = {T}")
            del found, right
            seconds[name].append(best_time(call))
            memory[name].append(peak_memory(call))
    what = "forward and backward" if backward else "forward"
    _print_routes(f"(b) diagonal SSM, 16 × 64 states, {what}", lengths, seconds, memory)
    return seconds


def _pass(route: Any, parameters: list[Tensor], x: Tensor, *, backward: bool) -> Any:
    if not backward:
        with torch.no_grad():
            return route(*parameters, x)
    leaves = [p.detach().requires_grad_() for p in parameters]
    return torch.autograd.grad(route(*leaves, x).square().sum(), leaves)


def _print_routes(
    title: str,
    lengths: Sequence[int],
    seconds: dict[str, list[float]],
    memory: dict[str, list[float]],
) -> None:
    head = [f"T = {T}" for T in lengths]
    rows = [
        [name, *(_ms(v) for v in times), _number(growth(lengths, times))]
        for name, times in seconds.items()
    ]
    print_table(f"{title}: ms, and the exponent of growth", ["", *head, "exponent"], rows)
    for peer in ("plain loop", "mambapy pscan"):
        ratios = [
            [name, *(_number(p / v) for p, v in zip(seconds[peer], times, strict=True))]
            for name, times in seconds.items()
        ]
        print_table(f"{title}: {peer} ÷ route", ["", *head], ratios)
    rows = [[name, *(_number(v / 2**20) for v in peaks)] for name, peaks in memory.items()]
    print_table(f"{title}: peak memory, MiB", ["", *head], rows)


def memory_floor(lengths: Sequence[int], speed: float) -> list[list[float]]:
    """Seconds to write and read all states once, and inputs and outputs once."""
    return [[2 * 4 * T * width / speed for T in lengths] for width in (CHANNELS * STATES, CHANNELS)]


def _ms(seconds: float) -> str:
    return _number(1e3 * seconds)


def _number(value: float) -> str:
    return "–" if not math.isfinite(value) else f"{value:.3g}"


# -------------------------------------------------------------------------- (c) decoding, (d) attention


def cached_decoding(trajectories: int) -> None:
    """A rollout of 31 steps by the plain loop, and by recurrence or KV cache."""
    tokens, _ = training.held_out_set(LinearGaussianSystem(), training.TEST, trajectories)
    rows = []
    for name in ("SSM", "complex SSM", "transformer"):
        forecaster = Forecaster([FORECASTERS[name](seed) for seed in range(8)])
        own = np.broadcast_to(tokens, (8, *tokens.shape))
        slow = best_time(functools.partial(open_loop_rollout, forecaster, own))
        fast = best_time(functools.partial(decoding.rollout, forecaster, tokens))
        rows.append([name, _ms(slow), _ms(fast), f"{slow / fast:.1f}"])
    head = ["", "plain loop, ms", "cached, ms", "ratio"]
    print_table(f"(c) rollouts of 8 seeds × {trajectories} trajectories", head, rows)


def attention(lengths: Sequence[int]) -> None:
    """Causal attention of one head of width 64 with its whole matrix, and tile by tile."""
    rows = []
    for T in lengths:
        rng = np.random.default_rng(0)
        q, k, v = torch.tensor(rng.normal(size=(3, T, 64))).float()

        def dense(q: Tensor = q, k: Tensor = k, v: Tensor = v, T: int = T) -> Tensor:
            return scaled_dot_product_attention(q, k, v, mask=causal_mask(T))[0]

        tiled = functools.partial(tiled_attention, q, k, v, causal=True)
        entries = [f(call) for call in (dense, tiled) for f in (best_time, peak_memory)]
        cells = [_ms(entries[0]), _ms(entries[2])]
        cells += [_number(entries[i] / 2**20) for i in (1, 3)]
        rows.append([f"T = {T}", *cells])
    head = ["", "dense, ms", "tiled, ms", "dense, MiB", "tiled, MiB"]
    print_table("(d) causal attention, width 64", head, rows)


# --------------------------------------------------------------------------------------- the whole


def plot(path: Path, lengths: Sequence[int], seconds: dict[str, list[float]], speed: float) -> None:
    """Time against length, beside what memory alone would take."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for (name, times), marker in zip(seconds.items(), "osD^vPX", strict=True):
        axes.loglog(lengths, times, marker=marker, label=name)
    labels = ("states written and read once", "inputs and outputs alone")
    for label, floor, style in zip(labels, memory_floor(lengths, speed), ("--", ":"), strict=True):
        axes.loglog(lengths, floor, "k" + style, label=label)
    axes.set(xlabel="tokens T", ylabel="seconds, forward")
    axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"\nplot: {path}")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("_build"), help="folder of the plot")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--attention", type=int, nargs="+", default=(256, 1024, 4096))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--trajectories", type=int, default=1024)
    parser.add_argument("--parts", nargs="+", choices="abcd", default="abcd")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if "a" in options.parts:
        seeds_together(options.seeds, options.steps)
    if "b" in options.parts:
        speed = bandwidth()
        print(f"\nmemory: {speed / 1e9:.1f} GB/s read and written")
        forward = diagonal_ssm(options.lengths, backward=False)
        floors = [
            [name, *map(_ms, floor)]
            for name, floor in zip(
                ("all states once", "inputs and outputs"),
                memory_floor(options.lengths, speed),
                strict=True,
            )
        ]
        head = ["", *(f"T = {T}" for T in options.lengths)]
        print_table("(b) what memory alone would take, ms", head, floors)
        diagonal_ssm(options.lengths, backward=True)
        plot(options.out / "bench_diagonal_ssm.png", options.lengths, forward, speed)
    if "c" in options.parts:
        cached_decoding(options.trajectories)
    if "d" in options.parts:
        attention(options.attention)
    return 0


if __name__ == "__main__":
    sys.exit(main())
