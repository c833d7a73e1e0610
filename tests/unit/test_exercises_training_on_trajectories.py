"""What the open exercise on trajectories says of its outcome."""

import numpy as np
import pytest
import torch

from book_utils.systems import LinearGaussianSystem


def errors_at_16(lags):
    """Error at horizon 16 after a 1-step and a 16-step loss, mean of five logs, as section 3.10 fits."""
    system = LinearGaussianSystem()
    logs = [system.simulate(256, 32, np.random.default_rng([310, s])) for s in range(5)]
    y = torch.tensor(np.stack([log.observations for log in logs]))
    u = torch.tensor(np.stack([log.controls for log in logs]))
    test = system.simulate(1024, 32, np.random.default_rng(311))
    y_test, u_test = torch.tensor(test.observations)[None], torch.tensor(test.controls)[None]

    def squared(theta, y, u, k):
        start = torch.arange(lags, u.shape[2] - k + 1)
        past, result = [y[:, :, start - j] for j in range(lags)], []
        for h in range(k):
            terms = past + [u[:, :, start + h - j] for j in range(lags)]
            new = sum(theta[:, i, None, None] * x for i, x in enumerate(terms))
            result.append((new - y[:, :, start + h + 1]).square().mean(dim=(1, 2)))
            past = [new, *past[:-1]]
        return torch.stack(result)

    def fitted(k, start):
        theta = start.clone().requires_grad_()
        search = torch.optim.LBFGS([theta], max_iter=20, line_search_fn="strong_wolfe")

        def closure():
            search.zero_grad()
            loss = squared(theta, y, u, k).mean(dim=0).sum()
            loss.backward()
            return loss

        search.step(closure)
        return theta.detach()

    one = fitted(1, torch.zeros(5, 2 * lags, dtype=torch.float64))
    sixteen = fitted(16, fitted(4, one))
    return [squared(theta, y_test, u_test, 16)[-1].mean().item() for theta in (one, sixteen)]


def test_the_numbers_told_in_the_open_exercise():
    assert errors_at_16(lags=3) == pytest.approx([0.14, 0.06], abs=0.005)
