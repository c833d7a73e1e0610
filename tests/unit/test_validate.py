"""Clear errors for bad arguments."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from book_utils import _validate as v


@pytest.mark.parametrize("value", [1, 7, np.int64(3)])
def test_positive_int_returns_a_plain_int(value):
    assert type(v.positive_int("n", value)) is int


@pytest.mark.parametrize("value", [1.0, "1", True, None])
def test_positive_int_wants_an_integer(value):
    with pytest.raises(TypeError, match="n must be an integer"):
        v.positive_int("n", value)


@pytest.mark.parametrize(("value", "minimum"), [(0, 1), (-2, 0)])
def test_positive_int_names_the_minimum(value, minimum):
    with pytest.raises(ValueError, match=f"n must be at least {minimum}, got {value}"):
        v.positive_int("n", value, minimum=minimum)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_finite_number_rejects_nan_and_infinity(value):
    with pytest.raises(ValueError, match="x must be finite"):
        v.finite_number("x", value)


@pytest.mark.parametrize("value", ["1", True, 1j, None])
def test_finite_number_wants_a_real_number(value):
    with pytest.raises(TypeError, match="x must be a real number"):
        v.finite_number("x", value)


@pytest.mark.parametrize("value", [10**400, -(10**400), Fraction(10**5000)], ids="abc")
def test_finite_number_refuses_what_no_float_can_hold(value):
    with pytest.raises(ValueError, match="x must be finite, but it is too large"):
        v.finite_number("x", value)


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2]],
        np.float32([[1, 2]]),
        torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16, requires_grad=True),
        [torch.tensor([1.0, 2.0])],
    ],
)
def test_real_array_takes_lists_arrays_and_tensors(value):
    array = v.real_array("x", value)
    assert isinstance(array, np.ndarray)
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1j, 1.0], "x must hold real numbers, got complex128"),
        (np.ones(2, complex), "x must hold real numbers, got complex128"),
        (torch.ones(2, dtype=torch.complex64), "x must hold real numbers, got complex64"),
        ("12", "x must hold real numbers, got <U2"),
        (None, "x must hold real numbers, got object"),
        ([[1.0], [1.0, 2.0]], "x must be an array of real numbers"),
        ([torch.ones(2, requires_grad=True)], "x must be an array of real numbers"),
    ],
)
def test_real_array_drops_no_imaginary_part(value, message):
    with pytest.raises(TypeError, match=message):
        v.real_array("x", value)


def test_positive_number_rejects_zero():
    with pytest.raises(ValueError, match="dt must be above zero, got 0"):
        v.positive_number("dt", 0)


def test_one_of_lists_what_is_allowed():
    assert v.one_of("rule", "zoh", ("zoh", "euler")) == "zoh"
    with pytest.raises(ValueError, match=r"rule must be one of \['euler', 'zoh'\], got 'tustin'"):
        v.one_of("rule", "tustin", ("zoh", "euler"))


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_finite_counts_the_bad_entries(make):
    good, bad = make([1.0, 2.0]), make([1.0, float("nan"), float("inf")])
    assert v.finite("x", good) is good
    with pytest.raises(ValueError, match="x must be finite, but 2 of its entries"):
        v.finite("x", bad)


@pytest.mark.parametrize("make", [np.array, torch.tensor])
@pytest.mark.parametrize(
    ("values", "bad"),
    [
        ([3e38, 3e38], 0),  # the sum overflows float32, the entries do not
        ([3e38, 3e38, float("nan")], 1),
        ([float("inf"), -float("inf"), 1.0], 2),  # they cancel to NaN, not to zero
        ([], 0),
    ],
)
def test_a_sum_that_overflows_is_no_bad_entry(make, values, bad):
    dtype = np.float32 if make is np.array else torch.float32
    assert v.count_not_finite(make(values, dtype=dtype)) == bad
    assert v.count_not_finite(make([1, 2])) == 0
    assert v.count_not_finite(make([1j, complex(0, float("inf"))])) == 1


def test_is_torch_and_is_floating():
    assert v.is_torch(torch.zeros(1))
    assert v.is_torch(torch.nn.Parameter(torch.zeros(1)))
    assert not v.is_torch(np.zeros(1))
    assert v.is_floating(np.zeros(1, dtype=complex))
    assert v.is_floating(torch.zeros(1, dtype=torch.bfloat16))
    assert not v.is_floating(np.zeros(1, dtype=int))
    assert not v.is_floating(torch.zeros(1, dtype=torch.int32))


def test_shapes():
    with pytest.raises(ValueError, match=r"x must have shape \(..., T, d\), got \(3,\)"):
        v.min_ndim("x", np.zeros(3), 2, "(..., T, d)")
    with pytest.raises(ValueError, match="the width of q is 2 but the width of k is 3"):
        v.same_size("the width of q", 2, "the width of k", 3)
