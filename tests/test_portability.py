"""A short slice of `make portability`: the attention that once failed on a CPU without AVX-512."""

from __future__ import annotations

import pytest

from tests.portability import TORCH_ENVIRONMENTS, run_tests

NO_SIMD, SSE = TORCH_ENVIRONMENTS["torch: no SIMD"], TORCH_ENVIRONMENTS["oneDNN, MKL: SSE4.1"]


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({**NO_SIMD, **SSE}, id="both"),
        pytest.param(NO_SIMD, id="torch: no SIMD", marks=pytest.mark.slow),
        pytest.param(SSE, id="oneDNN, MKL: SSE4.1", marks=pytest.mark.slow),
    ],
)
def test_attention_agrees_on_another_machine(variables):
    outcome = run_tests(
        variables,
        "tests/model/test_attention.py::test_fast_attention_equals_the_reference",
        "--seeds",
        "2",
    )
    assert (outcome.tests, outcome.failures) == (48 * 2, 0), outcome.output


def test_a_failure_is_counted(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_a(): assert 0\ndef test_b(): assert 1\n")
    outcome = run_tests({}, str(tmp_path / "test_it.py"))
    assert (outcome.tests, outcome.failures) == (2, 1)
    assert "def test_a(): assert 0" in outcome.output
