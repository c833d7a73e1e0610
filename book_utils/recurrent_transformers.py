r"""Transformers that carry something from segment to segment.

Transformer-XL (Dai et al. 2019) carries the last M hidden states of every layer, as extra keys and
values; positions are relative, so that a state means the same wherever it is read from.
Block-Recurrent Transformers (Hutchins et al. 2022) also carry a fixed set of state vectors, which
attend and are gated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ._shapes import check_arrays
from ._validate import generator, positive_int, same_size
from .attention import Seed, scaled_dot_product_attention, seeded_linear, softmax
from .positions import sinusoidal_positions


def relative_scores(q: Tensor, k: Tensor, r: Tensor, u: Tensor, v: Tensor) -> Tensor:
    r"""Attention scores that know distances and no positions (Dai et al. 2019, section 3.3).

    $$ s_{ij} = \frac{(q_i + u)^\top k_j + (q_i + v)^\top r_{i-j}}{\sqrt d} $$

    u asks for what is always interesting, v for the distances that always are. There may be more
    keys than queries: the last query stands at the last key.

    Args:
        q: queries, (L, d).
        k: keys, (M + L, d).
        r: vectors of the distances 0, 1, …, M + L − 1, (M + L, d).
        u, v: (d,).

    Returns:
        (L, M + L), −∞ where the key lies in the query's future.

    Raises:
        TypeError, ValueError: arguments are not as stated, or there are fewer keys than queries.
    """
    check_arrays("torch", q=(q, "L d"), k=(k, "K d"), r=(r, "K d"), u=(u, "d"), v=(v, "d"))
    L, K = q.shape[0], k.shape[0]
    if K < L:
        raise ValueError(f"k must have at least as many rows as q, got {K} and {L}")
    distance = torch.arange(K - L, K)[:, None] - torch.arange(K)[None, :]  # (L, K)
    content = (q + u) @ k.T
    position = ((q + v) @ r.T).gather(1, distance.clamp(min=0))
    scores = (content + position) / math.sqrt(q.shape[1])
    return scores.masked_fill(distance < 0, -torch.inf)


class RelativeAttention(nn.Module):
    """One head of causal self-attention over a segment and what is remembered before it.

    Args:
        d: width, even.
        seed: integer or numpy Generator for the first weights.

    Raises:
        TypeError, ValueError: `d` is not an even integer of at least 2.
    """

    def __init__(self, d: int, *, seed: Seed = 0) -> None:
        super().__init__()
        rng = generator("seed", seed)
        self.query, self.key, self.value, self.distance, self.output = (
            seeded_linear(d, d, seed=rng, bias=False) for _ in range(5)
        )
        draw = torch.from_numpy(rng.normal(0, 1, (2, d))).to(torch.get_default_dtype())
        self.u, self.v = nn.Parameter(draw[0].clone()), nn.Parameter(draw[1].clone())

    def attend(self, x: Tensor, memory: Tensor) -> Tensor:
        """What the segment x (L, d) reads from itself and the memory (M, d), before the output map."""
        context = torch.cat([memory, x])
        table = sinusoidal_positions(len(context), x.shape[-1], dtype=x.dtype)
        scores = relative_scores(
            self.query(x), self.key(context), self.distance(table), self.u, self.v
        )
        return softmax(scores) @ self.value(context)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """Segment (L, d) and memory (M, d), M ≥ 0, in; (L, d) out."""
        return self.output(self.attend(x, memory))


class TransformerXL(nn.Module):
    r"""Layers $h^{n} = h^{n-1} + \mathrm{MLP}$-free attention over $[m^{n-1}; h^{n-1}]$.

    Each layer remembers the last `memory` *inputs* it has seen; gradients do not flow into them.
    One head, no MLP and no normalisation, so that what is left is the recurrence over segments.

    Args:
        d: width, even.
        layers: how many.
        memory: M, hidden states kept a layer; 0 keeps none.
        seed: integer or numpy Generator for the first weights.

    Raises:
        TypeError, ValueError: a size is not as stated.
    """

    def __init__(self, d: int, layers: int, memory: int, *, seed: Seed = 0) -> None:
        super().__init__()
        rng = generator("seed", seed)
        self.memory = positive_int("memory", memory, minimum=0)
        self.layers = nn.ModuleList(
            RelativeAttention(d, seed=rng) for _ in range(positive_int("layers", layers))
        )

    def forward(
        self, x: Tensor, memories: Sequence[Tensor] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """One segment (L, d) and the layers' memories in; its output and new memories out.

        Raises:
            TypeError, ValueError: `x` is not (L, d), or there is not one memory a layer.
        """
        check_arrays("torch", x=(x, "L d"))
        memories = [x[:0]] * len(self.layers) if memories is None else memories
        same_size("the number of memories", len(memories), "of layers", len(self.layers))
        kept = []
        for layer, memory in zip(self.layers, memories, strict=True):
            seen = torch.cat([memory, x])
            kept.append(seen[max(0, len(seen) - self.memory) :].detach())
            x = x + layer(x, memory)
        return x, kept

    def run(self, x: Tensor, segment: int) -> Tensor:
        """Process a long sequence (T, d) segment by segment, carrying the memories."""
        memories, outputs = None, []
        for piece in x.split(positive_int("segment", segment)):
            y, memories = self(piece, memories)
            outputs.append(y)
        return torch.cat(outputs)


class BlockRecurrentCell(nn.Module):
    r"""Transformer-XL's layer with a second memory: S state vectors, updated once a block.

    Tokens read the window and the states side by side, states read the tokens and themselves, and a
    fixed gate mixes old and new states (Hutchins et al. 2022, section 3):

    $$ y = x + W_o\,[\,\mathrm{Attn}(x, [m; x]);\ \mathrm{Attn}(x, s)\,], \qquad
       s' = g \odot s + (1 - g) \odot z, \qquad g = \sigma(b_g) $$

    with z a projection of what the states read. The paper's best gate is this one; it also tries
    LSTM gates, which look at the states.

    Args:
        d: width, even.
        states: S, how many state vectors.
        seed: integer or numpy Generator for the first weights.

    Raises:
        TypeError, ValueError: a size is not as stated.
    """

    def __init__(self, d: int, states: int, *, seed: Seed = 0) -> None:
        super().__init__()
        rng = generator("seed", seed)
        self.window = RelativeAttention(d, seed=rng)
        self.token_query, self.state_query, self.state_key, self.state_value = (
            seeded_linear(d, d, seed=rng, bias=False) for _ in range(4)
        )
        self.from_states = seeded_linear(d, d, seed=rng, bias=False)
        self.update = seeded_linear(2 * d, d, seed=rng, bias=False)
        first = torch.from_numpy(rng.normal(0, 1, (positive_int("states", states), d)))
        self.first = nn.Parameter(first.to(torch.get_default_dtype()))
        self.gate_bias = nn.Parameter(torch.full((d,), 2.0))

    def forward(self, x: Tensor, memory: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Block (L, d), window memory (M, d) and states (S, d) in; block and states out."""
        check_arrays("torch", x=(x, "L d"), state=(state, "S d"))
        keys, values = self.state_key(state), self.state_value(state)
        from_states, _ = scaled_dot_product_attention(self.token_query(x), keys, values)
        y = x + self.window(x, memory) + self.from_states(from_states)
        asked = self.state_query(state)
        of_tokens, _ = scaled_dot_product_attention(asked, self.window.key(x), self.window.value(x))
        of_states, _ = scaled_dot_product_attention(asked, keys, values)
        z = self.update(torch.cat([of_tokens, of_states], dim=-1))
        gate = torch.sigmoid(self.gate_bias)
        return y, gate * state + (1 - gate) * z

    def run(self, x: Tensor, block: int, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """A long sequence (T, d) block by block, the window's memory being the block before.

        Returns:
            (outputs (T, d), last states (S, d)). The first states are `state`, or learned ones.
        """
        state = self.first if state is None else state
        memory, outputs = x[:0], []
        for piece in x.split(positive_int("block", block)):
            y, state = self(piece, memory, state)
            memory = piece.detach()
            outputs.append(y)
        return torch.cat(outputs), state
