"""The description of a machine."""

import platform

import pytest

from benchmarks.machine import cpu_model


@pytest.mark.parametrize(
    ("name", "found"),
    [("AMD EPYC", "AMD EPYC (family 23, model 49)"), ("AMD EPYC 9R14", "AMD EPYC 9R14")],
)
def test_a_cpu_whose_name_has_no_number_is_named_with_its_model(tmp_path, name, found):
    lines = f"cpu family\t: 23\nmodel\t\t: 49\nmodel name\t: {name}\nflags\t\t:\n\n"
    (tmp_path / "cpuinfo").write_text("processor\t: 0\n" + lines + "processor\t: 1\n" + lines)
    assert cpu_model(tmp_path / "cpuinfo") == found


def test_a_cpu_without_a_name_is_named_by_python(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\n")
    expected = platform.processor() or platform.machine()
    assert cpu_model(tmp_path / "cpuinfo") == cpu_model(tmp_path / "missing") == expected
