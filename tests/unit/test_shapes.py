"""The shape checker names what is wrong."""

import numpy as np
import pytest
import torch

from book_utils._shapes import check_arrays

M = np.ones((3, 2))


def test_returns_the_size_of_every_letter():
    sizes = check_arrays("numpy", A=(M, "n m"), x=(np.ones((5, 4, 2)), "... m"))
    assert sizes == {"n": 3, "m": 2}


@pytest.mark.parametrize(
    ("arrays", "error", "words"),
    [
        ({"A": ([[1.0]], "n m")}, TypeError, "A must be a numpy array, got list"),
        ({"A": (torch.ones(2, 2), "n m")}, TypeError, "A must be a numpy array, got Tensor"),
        ({"A": (np.ones((2, 2), int), "n m")}, TypeError, "floating-point numbers, got int64"),
        ({"A": (np.ones(2), "n m")}, ValueError, r"A must have shape \(n, m\), got \(2,\)"),
        ({"A": (np.ones((1, 2, 2)), "n m")}, ValueError, r"shape \(n, m\), got \(1, 2, 2\)"),
        ({"A": (np.ones(()), "... n")}, ValueError, r"shape \(..., n\), got \(\)"),
        ({"A": (np.ones((2, 3)), "n n")}, ValueError, "axis n is 2 in A but 3 in A"),
        ({"A": (M, "n m"), "B": (M, "m n")}, ValueError, "axis m is 2 in A but 3 in B"),
        ({"A": (np.ones((0, 2)), "n m")}, ValueError, "A must not have an empty axis"),
        ({"A": (np.array([np.nan]), "n")}, ValueError, "A must be finite"),
        (
            {"A": (np.ones((2, 4)), "... n"), "B": (np.ones((3, 4)), "... n")},
            ValueError,
            "leading axes do not broadcast",
        ),
    ],
)
def test_says_what_is_wrong(arrays, error, words):
    with pytest.raises(error, match=words):
        check_arrays("numpy", **arrays)


def test_tensors_must_share_a_dtype():
    with pytest.raises(TypeError, match="share one dtype"):
        check_arrays("torch", a=(torch.ones(2), "n"), b=(torch.ones(2).double(), "n"))
    with pytest.raises(TypeError, match="a must be a torch tensor, got ndarray"):
        check_arrays("torch", a=(np.ones(2), "n"))
    assert check_arrays("torch", a=(torch.ones(2, 3), "... n")) == {"n": 3}
