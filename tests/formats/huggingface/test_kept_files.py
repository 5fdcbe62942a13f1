"""Chat templates and settings of transformers are copied unchanged, and nothing else is."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil

import pytest

from cs336_basics.formats import export_tokenizer
from cs336_basics.formats.huggingface.kept_files import (
    CONFIG_FILE,
    KEPT_FILES,
    MAX_SIZE,
    MAX_TEMPLATES,
    TEMPLATES,
    files_to_keep,
)
from cs336_basics.tokenizer import Tokenizer, extend, prune
from tests.errors import rejects
from tests.faults import restore, states_at_every_call
from tests.tokenizer.examples import BYTES

TEMPLATE = "{% for m in messages %}<s>{{ m.role }}\n{{ m.content }}</s>{% endfor %}"
CONFIG = (
    b'{"tokenizer_class": "PreTrainedTokenizerFast",  '
    b'"eos_token": {"__type": "AddedToken", "content": "</s>"}}\r\n'
)
FILES = {
    CONFIG_FILE: CONFIG,
    "special_tokens_map.json": b"not even JSON",
    "chat_template.jinja": TEMPLATE.encode(),
    f"{TEMPLATES}/tool_use.jinja": b"\xff{{ tools }}",
}


def made():
    return Tokenizer({**BYTES, 256: b"ab", 257: b"<s>", 258: b"</s>"}, [(b"a", b"b")],
                     ["<s>", "</s>"])  # fmt: skip


@pytest.fixture
def source(tmp_path):
    directory = tmp_path / "source"
    made().save(directory)
    (directory / TEMPLATES).mkdir()
    for name, content in FILES.items():
        (directory / name).write_bytes(content)
    (directory / "model.safetensors").write_bytes(b"weights")
    (directory / "generation_config.json").write_bytes(b"{}")
    (directory / TEMPLATES / ".hidden.jinja").write_bytes(b"x")
    (directory / TEMPLATES / "run.py").write_bytes(b"x")
    return directory


def files_in(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_save_copies_the_files_if_it_is_asked_to(source, tmp_path):
    tokenizer = Tokenizer.from_pretrained(source)
    tokenizer.save(tmp_path / "plain")
    assert {*files_in(tmp_path / "plain")} == {"tokenizer.json", "training.json"}
    tokenizer.save(tmp_path / "out", keep_files=True)
    saved = files_in(tmp_path / "out")
    assert {*saved} == {"tokenizer.json", "training.json", *FILES}
    assert {name: saved[name] for name in FILES} == FILES
    before = files_in(source)
    tokenizer.save(source, keep_files=True)
    assert files_in(source).keys() == before.keys()


def test_changed_tokenizers_remember_the_directory(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenizer = Tokenizer.from_directory("source/tokenizer.json")
    monkeypatch.chdir("/")
    longer = extend(tokenizer, ["abc"], ["<new>"])
    tokenizer.add_special_tokens(["<other>"])
    smaller, _ = prune(longer, 260, {b"ab": 2})
    for number, changed in enumerate((tokenizer, longer, smaller)):
        changed.save(tmp_path / str(number), keep_files=True)
        assert (tmp_path / str(number) / CONFIG_FILE).read_bytes() == CONFIG
    assert pickle.dumps(Tokenizer.from_directory(source)) == pickle.dumps(made())
    for unknown in (made(), copy.copy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        with rejects("keep_files", "loaded"):
            unknown.save(tmp_path / "unknown", keep_files=True)
    assert not (tmp_path / "unknown").exists()


def test_an_export_keeps_the_files_in_place_of_its_own(source, tmp_path):
    tokenizer = Tokenizer.from_pretrained(source)
    export_tokenizer(tokenizer, "huggingface", tmp_path / "out", keep_files=True)
    exported = files_in(tmp_path / "out")
    assert {name: exported[name] for name in FILES} == FILES
    assert {*exported} == {"tokenizer.json", *FILES}
    with rejects("eos_token", CONFIG_FILE):
        export_tokenizer(
            tokenizer, "huggingface", tmp_path / "no", keep_files=True, eos_token="<s>"
        )
    with rejects("keep_files", "tiktoken"):
        export_tokenizer(tokenizer, "tiktoken", tmp_path / "no", keep_files=True)
    assert not (tmp_path / "no").exists()


def test_without_a_kept_configuration_the_export_writes_its_own(source, tmp_path):
    (source / CONFIG_FILE).unlink()
    tokenizer = Tokenizer.from_pretrained(source)
    out = tmp_path / "out"
    export_tokenizer(tokenizer, "huggingface", out, keep_files=True, eos_token="<s>")
    assert json.loads((out / CONFIG_FILE).read_bytes())["eos_token"] == "<s>"
    assert (out / "chat_template.jinja").read_bytes() == TEMPLATE.encode()


def test_an_exported_tokenizer_chats(source, tmp_path):
    transformers = pytest.importorskip("transformers")
    (source / "special_tokens_map.json").unlink()
    (source / TEMPLATES / "tool_use.jinja").write_bytes(b"{{ tools }}")
    export_tokenizer(Tokenizer.from_pretrained(source), "huggingface", tmp_path / "out",
                     keep_files=True)  # fmt: skip
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    chat = [{"role": "user", "content": "ab"}]
    assert theirs.apply_chat_template(chat, tokenize=False) == "<s>user\nab</s>"
    assert theirs.eos_token == "</s>"
    assert theirs.get_chat_template("tool_use") == "{{ tools }}"


def test_files_of_the_hubs_cache_are_links_within_it(source, tmp_path):
    snapshot, blobs = tmp_path / "hub/snapshots/abc", tmp_path / "hub/blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "1").write_bytes(CONFIG)
    (snapshot / CONFIG_FILE).symlink_to("../../blobs/1")
    assert files_to_keep(snapshot) == {CONFIG_FILE: CONFIG}


@pytest.mark.parametrize("name", [*KEPT_FILES, f"{TEMPLATES}/tool_use.jinja"])
def test_links_out_of_the_directory_and_other_kinds_of_files_are_refused(source, tmp_path, name):
    outside = tmp_path / "secret"
    outside.write_bytes(b"secret")
    path = source / name
    tokenizer = Tokenizer.from_pretrained(source)

    def refuses(*words):
        with rejects(None, *words, place=str(path)):
            tokenizer.save(tmp_path / "out", keep_files=True)
        assert not (tmp_path / "out").exists()

    path.unlink(missing_ok=True)
    up = os.path.relpath(outside, path.parent)
    for target in (outside, up, f"./{up}"):
        path.symlink_to(target)
        refuses("outside")
        path.unlink()
    if hasattr(os, "mkfifo"):
        os.mkfifo(path)
        with rejects(None, "FIFO"):
            tokenizer.save(tmp_path / "out", keep_files=True)
        path.unlink()
    with open(path, "wb") as file:
        file.truncate(MAX_SIZE + 1)
    refuses(f"{MAX_SIZE:,}")


def test_a_linked_folder_of_templates_and_too_many_templates_are_refused(source, tmp_path):
    for number in range(MAX_TEMPLATES + 1):
        (source / TEMPLATES / f"{number}.jinja").write_bytes(b"")
    with rejects(None, MAX_TEMPLATES):
        files_to_keep(source)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.jinja").write_bytes(b"secret")
    for path in (source / TEMPLATES).iterdir():
        path.unlink()
    (source / TEMPLATES).rmdir()
    (source / TEMPLATES).symlink_to(elsewhere)
    with rejects(None, "outside"):
        files_to_keep(source)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"a": 1, "a": 2}', b"\xff", b"[" * 9999, b'{"eos_token": 3}',
     b'{"pad_token": "ab"}', b'{"bos_token": {"content": "<missing>"}}'],
    ids=range(8),
)  # fmt: skip
def test_a_damaged_configuration_is_refused_by_an_export_and_kept_by_save(
    source, tmp_path, content
):
    (source / CONFIG_FILE).write_bytes(content)
    tokenizer = Tokenizer.from_pretrained(source)
    with rejects(None, place=CONFIG_FILE):
        export_tokenizer(tokenizer, "huggingface", tmp_path / "out", keep_files=True)
    assert not (tmp_path / "out").exists()
    tokenizer.save(tmp_path / "saved", keep_files=True)
    assert (tmp_path / "saved" / CONFIG_FILE).read_bytes() == content


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 6))]
)
def test_a_killed_save_leaves_each_file_old_or_new_and_the_next_one_works(source, tmp_path, part):
    tokenizer = Tokenizer.from_directory(source)
    before, after = tmp_path / "before", tmp_path / "after"
    extended = extend(tokenizer, ["abab"])
    for directory, saved in ((before, tokenizer), (after, extended)):
        saved.save(directory, keep_files=True)
    changed = dict(FILES, **{"chat_template.jinja": b"{{ another }}"})
    (source / "chat_template.jinja").write_bytes(changed["chat_template.jinja"])
    extended.save(after, keep_files=True)
    old, new = files_in(before), files_in(after)
    assert old["chat_template.jinja"] != new["chat_template.jinja"]
    watched = tmp_path / "watched"
    shutil.copytree(before, watched)
    states = states_at_every_call(lambda: extended.save(watched, keep_files=True), watched)
    for number, state in enumerate(states[part::6]):
        folder = tmp_path / str(number)
        restore(state, folder)
        for name, content in files_in(folder).items():
            assert ".tmp" in name or content in (old[name], new[name])
        assert Tokenizer.from_directory(folder).hash() in (tokenizer.hash(), extended.hash())
        extended.save(folder, keep_files=True)
        assert files_in(folder) == new
