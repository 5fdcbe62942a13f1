"""Kill writers, or let them fail, at any call: the complete old or new artifact remains."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("torch")

from tests.artifacts import KINDS, WRITTEN
from tests.faults import fail_at_every_call, restore, states_at_every_call


def is_new_after_fault(artifact, path, old, new):
    """Check that an artifact is whole after a fault. Return whether it is the new version."""
    content = artifact.load(path)
    if content == old:  # the next writer removes temporary files
        artifact.write(path, 2)
        assert artifact.load(path) == new
        assert not list(path.parent.rglob(".*")), list(path.parent.rglob("*"))
        return False
    assert content == new
    return True


@pytest.mark.parametrize("name", KINDS | WRITTEN)
def test_a_fault_at_any_call_leaves_the_old_artifact_or_the_new_one(tmp_path, name):
    """Write version 2 of an artifact over version 1, with a fault at each call."""
    artifact = (KINDS | WRITTEN)[name]
    for library in artifact.needs:
        pytest.importorskip(library)
    folders = (tmp_path / str(number) for number in itertools.count())

    def prepared():
        path = next(folders) / "artifact"
        path.parent.mkdir()
        artifact.write(path, 1)
        return path

    path = prepared()
    old = artifact.load(path)
    artifact.write(path, 2)  # imports modules, whose files do not count
    new = artifact.load(path)
    assert old != new

    path, seen = prepared(), set()
    for _ in fail_at_every_call(lambda: artifact.write(path, 2)):  # noqa: B023 -- the latest path
        seen.add(is_new_after_fault(artifact, path, old, new))
        path = prepared()
    assert artifact.load(path) == new
    assert seen == {False, True}
    path, seen = prepared(), set()
    for state in states_at_every_call(lambda: artifact.write(path, 2), path.parent):
        folder = next(folders)
        restore(state, folder)
        seen.add(is_new_after_fault(artifact, folder / path.name, old, new))
    assert seen == {False, True}
