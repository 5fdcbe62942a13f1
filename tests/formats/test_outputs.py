"""Outputs are written completely or not at all, and are replaced only if this is allowed."""

from __future__ import annotations

import os

import pytest

from cs336_basics.formats.outputs import check_is_free, write_directory


def test_files_are_written_without_newline_translation(tmp_path):
    write_directory(tmp_path / "new" / "folder", {"a.bin": b"\r\n", "b.txt": "é\n"})
    assert (tmp_path / "new" / "folder" / "a.bin").read_bytes() == b"\r\n"
    assert (tmp_path / "new" / "folder" / "b.txt").read_bytes() == "é\n".encode()


def test_a_failure_leaves_no_directory(tmp_path):
    with pytest.raises(TypeError):
        write_directory(tmp_path / "out", {"a": "text", "b": None})
    assert os.listdir(tmp_path) == []


def test_an_existing_output_is_refused_unless_it_may_be_replaced(tmp_path):
    check_is_free(tmp_path, False)  # an empty directory
    check_is_free(tmp_path / "file", False)
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(FileExistsError, match=str(path)):
            check_is_free(path, False)
        check_is_free(path, True)
