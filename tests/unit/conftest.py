"""Where there is no torch, the tests that need it are left out, and one line says which."""

from __future__ import annotations

from pathlib import Path

import pytest

MISSING = "No module named 'torch'"
left_out: list[str] = []


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Take a file of tests that cannot be imported without torch for skipped, not for broken."""
    report = yield
    if report.failed and MISSING in str(report.longrepr):
        left_out.append(Path(collector.path).stem.removeprefix("test_"))
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 1, "Skipped: needs torch")
    return report


def pytest_terminal_summary(terminalreporter):
    """Say once what was left out."""
    if left_out:
        terminalreporter.write_line(
            f"torch is not installed: {len(left_out)} files of tests that need it were left out "
            f"({', '.join(sorted(left_out))})"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a single test that turns out to need torch."""
    try:
        return (yield)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        pytest.skip("needs torch")
