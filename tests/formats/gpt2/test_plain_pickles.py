"""Pickled vocabularies and merges: what is read, and what is refused before it does harm."""

from __future__ import annotations

import collections
import contextlib
import os
import pickle
import pickletools
import sys
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.formats.gpt2.vocab_files import load_merges, load_vocab
from cs336_basics.tokenizer import Tokenizer
from tests.tokenizer.examples import COURSE_MERGES, COURSE_VOCAB


@pytest.mark.parametrize("suffix", [".pkl", ".pickle"])
@pytest.mark.parametrize("protocol", range(3, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_read(tmp_path, suffix, protocol):
    vocab_path, merges_path = tmp_path / f"vocab{suffix}", tmp_path / f"merges{suffix}"
    vocab_path.write_bytes(pickle.dumps(COURSE_VOCAB, protocol))
    merges_path.write_bytes(pickle.dumps([list(COURSE_MERGES[0]), *COURSE_MERGES[1:]], protocol))
    tokenizer = Tokenizer.from_files(vocab_path, merges_path)
    assert tokenizer.encode("the cat ate") == [9, 7, 1, 5, 10, 3]


class Runs:
    """Would write a file when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


def run_by_opcode(target, protocol_0: bool) -> bytes:
    """Return a pickle that calls os.mkdir, written by hand."""
    module, path = os.mkdir.__module__.encode(), str(target).encode()
    if protocol_0:
        return b"c" + module + b"\nmkdir\n(V" + path + b"\ntR."
    strings = [b"\x8c" + bytes([len(string)]) + string for string in (module, b"mkdir", path)]
    return b"\x80\x04" + strings[0] + strings[1] + b"\x93" + strings[2] + b"\x85R."


@pytest.mark.parametrize("load", [load_vocab, load_merges])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_code_does_not(tmp_path, load, protocol):
    target, path = tmp_path / "made", tmp_path / "evil.pkl"
    contents = [
        pickle.dumps(Runs(target), protocol),
        pickle.dumps({0: Runs(target)}, protocol),
        pickle.dumps([("a", Runs(target))], protocol),
        run_by_opcode(target, protocol_0=True),
        run_by_opcode(target, protocol_0=False),
        # The two-part instruction, and the one that makes an instance.
        f"(V{target}\ni{os.mkdir.__module__}\nmkdir\n.".encode(),
        f"(c{os.mkdir.__module__}\nmkdir\nV{target}\no.".encode(),
    ]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"evil\.pkl.*(posix|nt)\.mkdir"):
            load(path)
    assert not target.exists()
    pickle.loads(contents[0])
    assert target.exists()  # the pickle runs code where nothing prevents it


@pytest.mark.parametrize(
    "value",
    [
        collections.OrderedDict({0: b"a"}),
        collections.Counter("a"),
        {0: b"a", 1: bytearray(b"b")},
        {0: frozenset([1])},
        {0: complex(1)},
        {0: Ellipsis},
        {0: len},
        {0: b"a", 1: "b"},
        {0: b"a", 1.0: b"b"},
        {0: b"a", True: b"b"},
        {0: b"a", 1: None},
        {"a": 0},
        [(b"a", b"b"), (b"a", "b")],
        [(b"a", b"b", b"c")],
        [b"ab"],
        # (Its repr is not the same in every process that runs tests.)
        pytest.param([{b"a", b"b"}], id="[{b'a', b'b'}]"),
        [None],
        "ab",
        b"ab",
        7,
        None,
    ],
    ids=repr,
)
def test_a_pickle_of_anything_else_is_refused(tmp_path, value):
    path = tmp_path / "file.pkl"
    path.write_bytes(pickle.dumps(value))
    for load in (load_vocab, load_merges):
        with pytest.raises(ValueError, match=r"file\.pkl"):
            load(path)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_pickle_is_refused_or_holds_plain_values(tmp_path_factory, data):
    content = bytearray(pickle.dumps({0: b"a", 1: b"bc", 2: b"d" * 300}))
    for _ in range(data.draw(st.integers(1, 3))):
        offset = data.draw(st.integers(0, len(content) - 1))
        content[offset] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(1, len(content)))]
    path = tmp_path_factory.mktemp("pickles") / "file.pkl"
    path.write_bytes(content)
    # Any other exception fails the test.
    with contextlib.suppress(ValueError):
        vocab = load_vocab(path)
        assert all(type(k) is int and type(v) is bytes for k, v in vocab.items())


def test_pickled_bytes_of_an_old_protocol_are_explained(tmp_path):
    path = tmp_path / "vocab.pkl"
    path.write_bytes(pickle.dumps({0: b"a"}, protocol=2))
    assert any(opcode.name == "GLOBAL" for opcode, *_ in pickletools.genops(path.read_bytes()))
    with pytest.raises(ValueError, match=r"_codecs\.encode.*protocol 3"):
        load_vocab(path)


# ------------------------------------------------------------------ memory and time

NESTED = ["x"]
for _ in range(60):
    NESTED = [NESTED, NESTED]


def nested_tuples(depth):
    return b"\x80\x04}N" + b"\x85" * depth + b"K\x00s."


# Integers that have the same hash in every process: a dict of them takes quadratic time.
COLLIDING = [1 + k * sys.hash_info.modulus for k in range(20_000)]


def pickled_dict(keys, protocol):
    """The pickle of a dict with these keys, which is not made."""

    def code_of(value):
        return pickle.dumps(value, protocol)[2 if protocol else 0 : -1]

    value = code_of(b"a")
    if protocol == 0:
        return b"(d" + b"".join(code_of(key) + value + b"s" for key in keys) + b"."
    items = [code_of(key) + value for key in keys]
    batches = [b"".join(items[start : start + 1000]) for start in range(0, len(items), 1000)]
    return b"\x80\x03}" + b"".join(b"(" + batch + b"u" for batch in batches) + b"."


def test_the_pickle_of_a_dict_is_one():
    for protocol in (0, 3):
        assert pickle.loads(pickled_dict([1, 2.5, 2**80], protocol)) == dict.fromkeys(
            [1, 2.5, 2**80], b"a"
        )


@pytest.mark.parametrize("load", [load_vocab, load_merges])
@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps([NESTED]),  # its representation has 2 ** 60 characters
        b"\x80\x04Nr\xff\xff\xff\x0f.",  # stores a value under a number, for which 4 GB are needed
        b"\x80\x04Np268435455\n.",
        b"\x80\x04Np" + b"9" * 5000 + b"\n.",
        b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.",  # bytes of nearly 2 ** 63
        b"\x80\x04B\xff\xff\xff\x7f.",
        nested_tuples(1_000_000),  # a key whose hash overflows the stack
        pickle.dumps([(b"a" * 10**5, "b" * 10**5)]),
        pickle.dumps({"a" * 10**5: "b" * 10**5}),
        pickle.dumps({10**5000: 1}),
        b"(" * 10**5 + b".",
        pickled_dict(COLLIDING, 3),
        pickled_dict(COLLIDING, 0),
        pickled_dict(map(float, COLLIDING), 3),
    ],
    ids=range(14),
)
def test_hostile_pickles_are_refused_with_one_short_line(tmp_path, load, content):
    path = tmp_path / "file.pkl"
    path.write_bytes(content)
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"file\.pkl") as caught:
            load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 600 + len(str(path))
    assert "\n" not in str(caught.value)
    assert peak < 1_000_000 + 200 * len(content)
    assert time.process_time() - start < 5
