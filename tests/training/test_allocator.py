"""The process keeps freed memory, so the next step causes no page faults."""

from __future__ import annotations

import json
import os
import platform

import pytest

from tests.processes import run_python

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")

COUNT_PAGE_FAULTS = """
import json, resource
import torch
from cs336_basics.training.allocator import keep_freed_memory

keep_freed_memory()
faults = []
for step in range(12):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [torch.zeros(5_000_000) for _ in range(5)]  # 20 MB each, like the logits of a chunk
    del tensors
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(json.dumps(faults))
"""


@pytest.fixture(autouse=True)
def default_allocator(monkeypatch):
    for name in os.environ:
        if name.startswith(("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")):
            monkeypatch.delenv(name)


def page_faults_of_steps(**variables):
    return json.loads(run_python(COUNT_PAGE_FAULTS, **variables).stdout)


def test_freed_memory_is_kept():
    faults = page_faults_of_steps()
    # The first steps allocate the memory. Without the setting, most steps cause thousands of page
    # faults, or 50 if all pages are huge.
    assert max(faults[-4:]) < max(faults[0] / 20, 25), faults


@pytest.mark.slow
def test_an_allocator_configured_by_the_environment_is_left_alone():
    faults = page_faults_of_steps(MALLOC_TRIM_THRESHOLD_="131072")
    assert min(faults[-4:]) > max(faults[0] / 20, 25), faults
