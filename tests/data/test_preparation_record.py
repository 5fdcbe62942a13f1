"""A stage runs once, runs again if its files changed, and fails if its inputs changed."""

from __future__ import annotations

import pytest

from cs336_basics.data.preparation_record import Stages, recorded_files
from tests.errors import rejects


def make(directory, inputs, texts=("a", "b")):
    """Run a stage with two output files. Return its report without the time."""
    lines = []
    outputs = [directory / "a.txt", directory / "b.txt"]

    def write():
        for path, text in zip(outputs, texts, strict=True):
            path.write_text(text)

    Stages(directory, lines.append).run("text", inputs, outputs, write)
    assert [path.read_text() for path in outputs] == list(texts)
    (line,) = lines
    return line.split(" in ")[0]


def test_a_stage_runs_once_and_again_if_a_file_changed(tmp_path):
    assert make(tmp_path, {"x": 1}) == "text: done"
    assert make(tmp_path, {"x": 1}) == "text: unchanged"
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("c")
        assert make(tmp_path, {"x": 1}) == "text: done"
        (tmp_path / name).unlink()
        assert make(tmp_path, {"x": 1}) == "text: done"
    assert make(tmp_path, {"x": 1}) == "text: unchanged"


def test_files_are_recorded_unless_a_name_is_not_utf8(tmp_path):
    files = [tmp_path / "caf\udce9.txt", tmp_path / "a.txt"]
    try:
        for file in files:
            file.write_text("text")
    except (OSError, UnicodeError):
        pytest.skip("this file system has only Unicode names")
    paths = list(map(str, files))
    for names, found in ((paths, None), (paths[1:], tuple(paths[1:]))):
        Stages(tmp_path, print).record_files({"train": (names, names)})
        assert recorded_files(tmp_path, "train", names) == found
    assert make(tmp_path, {"x": 1}) == "text: done"  # stages.json can be read


@pytest.mark.parametrize("inputs", [{"x": 2}, {}, {"x": 1, "y": 2}])
def test_changed_inputs_are_rejected(tmp_path, inputs):
    make(tmp_path, {"x": 1})
    with rejects(None, place="text"):
        make(tmp_path, inputs)
    with rejects(None, place="text"):
        Stages(tmp_path, print).check("text", inputs, print)


def test_an_interrupted_stage_runs_again(tmp_path):
    def stop():
        (tmp_path / "a.txt").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Stages(tmp_path, print).run("text", {}, [tmp_path / "a.txt"], stop)
    assert make(tmp_path, {}) == "text: done"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"\xff", b'{"a": 7}', b'{"a": {}}', b'{"a": {"inputs": []}}',
     b'{"a": null}', b'[["a", 1]]', b"[" * 100_000, b" " * 3_000_000],
    ids=range(12),
)  # fmt: skip
def test_a_damaged_record_is_a_one_line_error(tmp_path, content):
    (tmp_path / "stages.json").write_bytes(content)
    with rejects(None, "stages.json") as caught:
        Stages(tmp_path, print)
    assert "\n" not in str(caught.value)
