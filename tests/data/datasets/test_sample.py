"""The sample corpus has the same bytes everywhere, and its stories vary."""

import hashlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics._support.errors import InputError, InputTypeError
from cs336_basics._support.files import sha256_file
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.data.datasets import DATASETS, sample_documents, write_sample
from tests.errors import rejects

ROOT = Path(__file__).parents[3]
END = f"\n{END_OF_TEXT}\n"

# The SHA-256 of the file that `write_sample(path, 1_000_000, seed)` writes. It changes whenever a
# plot or a word changes, but does not depend on the platform or the Python version.
GOLDEN = {
    0: "05d3ba9f65cb1537fe6ac0659224d6de4cc1f0550bbabce806cbabb6be2db4d1",
    1: "2ecd79fc4f14a24640f4d47bce45e3979c9241655d485b71e91c0a046dba06c9",
    2**70: "d0586f0a1d5faac4541765db0e5edb4f92c0caa940132083657a6d82ff20bd0c",
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Samples of one megabyte as bytes, by seed."""
    directory = tmp_path_factory.mktemp("sample")
    return {
        seed: write_sample(directory / f"{seed}.txt", 1_000_000, seed).read_bytes()
        for seed in GOLDEN
    }


@pytest.fixture(scope="module")
def stories(corpora):
    return corpora[0].decode("utf-8").split(END)[:-1]


# The same bytes


@pytest.mark.parametrize("seed", list(GOLDEN))
def test_the_bytes_are_the_same_on_every_platform(corpora, seed):
    assert hashlib.sha256(corpora[seed]).hexdigest() == GOLDEN[seed]


def test_the_sample_does_not_depend_on_the_hash_seed_or_installed_packages(corpora):
    # -I ignores the environment, and -S ignores site-packages.
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from cs336_basics.data.datasets import write_sample\n"
        "import os, tempfile\n"
        "with tempfile.TemporaryDirectory() as directory:\n"
        "    path = write_sample(os.path.join(directory, 'sample.txt'), 100_000, 0)\n"
        "    sys.stdout.buffer.write(path.read_bytes())\n"
    )
    for hash_seed, flags in (("1", ["-S"]), ("4242", ["-S", "-O"]), ("0", ["-I", "-S"])):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "LC_ALL": "C"}
        command = [sys.executable, *flags, "-c", code]
        output = subprocess.run(command, capture_output=True, check=True, env=environment).stdout
        assert len(output) >= 100_000
        assert corpora[0].startswith(output)


# The file


@settings(max_examples=30, deadline=None)
@given(num_bytes=st.integers(1, 12_000), seed=st.integers(0, 1000))
def test_a_file_ends_with_the_story_that_reaches_the_size(tmp_path_factory, num_bytes, seed):
    path = tmp_path_factory.mktemp("sample") / "sample.txt"
    assert write_sample(str(path), num_bytes, seed) == path
    data = path.read_bytes()
    documents = data.decode("utf-8").split(END)
    assert documents.pop() == ""
    assert documents == list(itertools.islice(sample_documents(seed), len(documents)))
    assert len(data) - len((documents[-1] + END).encode("utf-8")) < num_bytes <= len(data)


# The text


def test_stories_are_clean(stories):
    for story in stories:
        assert END_OF_TEXT not in story
        assert story == story.strip()
        # Lines end with LF, and there are no blank lines, double spaces or template syntax.
        assert not re.search(r"[\r\t]|\n\n|  | \n|\n ", story)
        assert not re.search(r"[\[\]{}<>|_]", story)
        assert not re.search(r" [.,!?;:]|[.,!?;:]{2}|[.,!?][\"”][.,!?]|,[\"”]?[^\s\"”]", story)


def test_stories_vary(corpora, stories):
    assert len(stories) == len(set(stories))
    valid = corpora[1].decode("utf-8").split(END)[:-1]
    assert not set(stories) & set(valid)
    text = "\n".join(stories)
    assert len(set(re.findall(r"[^\W\d_]+", text.lower()))) >= 1_500
    # Some stories, but not most, contain characters of two or three bytes.
    share = sum(not story.isascii() for story in stories) / len(stories)
    assert 0.1 < share < 0.4
    assert {"é", "ë", "ö", "“", "”", "’", "—", "…"} <= set(text)


@pytest.mark.slow
def test_ten_megabytes_have_almost_no_duplicates(tmp_path):
    train = write_sample(tmp_path / "train.txt", 10_000_000, 0).read_text("utf-8").split(END)[:-1]
    valid = write_sample(tmp_path / "valid.txt", 1_000_000, 1).read_text("utf-8").split(END)[:-1]
    assert sha256_file(tmp_path / "train.txt") == DATASETS["sample"].files["train"].sha256
    assert 1 - len(set(train)) / len(train) < 0.001
    assert len(set(train) & set(valid)) / len(valid) < 0.001


@pytest.mark.parametrize(("num_bytes", "error"), [(0, InputError), (5.0, InputTypeError)])
def test_an_invalid_size_is_rejected(tmp_path, num_bytes, error):
    with rejects("num_bytes", num_bytes, kind=error):
        write_sample(tmp_path / "sample.txt", num_bytes)
    assert list(tmp_path.iterdir()) == []
