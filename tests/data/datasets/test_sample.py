"""The embedded sample corpus: the same bytes everywhere, and correct English."""

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

from cs336_basics._support.files import sha256_file
from cs336_basics.data.datasets import DATASETS, sample, sample_documents, write_sample
from cs336_basics.data.datasets.sample import SEPARATOR, Story, random_numbers
from cs336_basics.data.datasets.story_files import read_library, read_sections
from cs336_basics.data.datasets.templates import render

ROOT = Path(__file__).parents[3]
END = f"\n{SEPARATOR}\n"

# SHA-256 of the file of `write_sample(path, 1_000_000, seed)`. It changes only when a plot or a
# word changes, not with the platform or the version of Python.
GOLDEN = {
    0: "05d3ba9f65cb1537fe6ac0659224d6de4cc1f0550bbabce806cbabb6be2db4d1",
    1: "2ecd79fc4f14a24640f4d47bce45e3979c9241655d485b71e91c0a046dba06c9",
    2**70: "d0586f0a1d5faac4541765db0e5edb4f92c0caa940132083657a6d82ff20bd0c",
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Seed -> the bytes of a sample of one megabyte."""
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


def test_the_sample_depends_on_no_hash_seed_or_installed_package(corpora):
    # -I and -S: no environment, no site-packages. The generator needs only the standard library.
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


def test_the_random_numbers_are_those_of_shake_128():
    draw = random_numbers(7, 3)
    expected = b"".join(
        hashlib.shake_128(b"cs336_basics sample 7 3 %d" % block).digest(336) for block in range(2)
    )
    drawn = b"".join(draw().to_bytes(2, "little") for _ in range(336))
    assert drawn == expected


def test_seeds_differ_and_a_seed_repeats_itself():
    def first(seed):
        return list(itertools.islice(sample_documents(seed), 50))

    assert first(0) == first(0)
    assert len({story for seed in (0, 1, -1, 2**64) for story in first(seed)}) == 200
    with pytest.raises(TypeError):
        first("0")
    with pytest.raises(TypeError):
        first(0.0)


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


@pytest.mark.parametrize("num_bytes", [0, -1])
def test_a_size_that_is_not_positive_is_refused(tmp_path, num_bytes):
    with pytest.raises(ValueError, match=f"num_bytes is {num_bytes}: it must be at least 1"):
        write_sample(tmp_path / "sample.txt", num_bytes)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_file_does_not_appear(tmp_path, monkeypatch):
    path = tmp_path / "sample.txt"
    path.write_text("before", encoding="utf-8")

    def interrupted(seed):
        yield "A story."
        raise KeyboardInterrupt

    monkeypatch.setattr(sample, "sample_documents", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_sample(path, 1000)
    assert path.read_text(encoding="utf-8") == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_progress_bar_reaches_its_end_on_a_terminal(tmp_path, capsys, monkeypatch, is_terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    write_sample(tmp_path / "sample.txt", 5000, progress=True)
    assert ("100%" in capsys.readouterr().err) == is_terminal


# The text


def test_stories_are_clean(stories):
    for story in stories:
        assert SEPARATOR not in story
        assert story == story.strip()
        # No line ends but LF, no blank lines, no doubled spaces, no leftovers of the templates.
        assert not re.search(r"[\r\t]|\n\n|  | \n|\n ", story)
        assert not re.search(r"[\[\]{}<>|_]", story)
        assert not re.search(r" [.,!?;:]|[.,!?;:]{2}|[.,!?][\"”][.,!?]|,[\"”]?[^\s\"”]", story)


def test_paragraphs_and_sentences_begin_and_end_correctly(stories):
    for paragraph in "\n".join(stories).split("\n"):
        assert re.match(r"[\"“]?[A-ZÀ-Ž]", paragraph), paragraph
        assert re.search(r"[.!?][\"”]?$", paragraph), paragraph
        small = re.findall(r"[.!?…] [a-z].*", paragraph)
        assert all(rest.startswith(("! went the", "… ")) for rest in small), paragraph


def test_quotation_marks_match(stories):
    for paragraph in "\n".join(stories).split("\n"):
        # Either kind, never both; opened before a word, closed after a full stop or the like.
        unquoted = re.sub(r"(?<![^ ])\"[A-Za-zÀ-ž][^\"“”]*[.,!?]\"(?![^ ])", "", paragraph)
        unquoted = re.sub(r"(?<![^ ])“[A-Za-zÀ-ž][^\"“”]*[.,!?]”(?![^ ])", "", unquoted)
        assert not re.search('["“”]', unquoted), paragraph
        assert not ("“" in paragraph and "'" in paragraph), paragraph


def test_articles_agree_with_the_next_word(stories):
    by_sound = {"useful": "a", "one": "a", "honest": "an"}
    seen = set()
    for article, word in re.findall(r"\b([Aa]n?) ([^\W\d_]+)", "\n".join(stories)):
        expected = by_sound.get(word, "an" if word[0] in "aeiouAEIOU" else "a")
        assert article.lower() == expected, (article, word)
        seen.add((article, word))
    assert len(seen) > 300


def test_no_word_is_doubled(stories):
    doubled = re.findall(r"\b(\w+) \1\b", "\n".join(stories))
    assert not doubled


def test_stories_agree_in_gender_and_in_the_lost_thing(stories):
    people = read_sections("people.txt")
    boys, girls = people["boys"].split(), people["girls"].split()
    children = re.findall(r"\b(boy|girl) (?:named|called) (\w+)", "\n".join(stories))
    assert len(children) > 100
    assert all(name in (boys if kind == "boy" else girls) for kind, name in children)
    lost_and_found = 0
    for story in stories:
        lost = re.search(r"had an? ([^,.]+), and s?he ", story)
        found = re.search(r"(?:lay|was) the ([^!.]+)!", story)
        if lost and found:
            lost_and_found += 1
            assert lost[1] == found[1]
    assert lost_and_found > 10


def test_pronouns_agree_with_the_cast():
    # Where everybody is "he", nobody may be called "she", and the other way around.
    foreign = {
        "he": r"\b([Ss]he|[Hh]ers?|[Hh]erself)\b",
        "she": r"\b([Hh]e|[Hh]im|[Hh]is|[Hh]imself)\b",
    }
    checked = {"he": 0, "she": 0}
    for index in range(3000):
        story = Story(random_numbers(0, index))
        plot, heroes = story.pick(read_library().plots)
        story.people = "animal" if heroes == "any" and index % 2 else "child"
        text = render(plot, story)
        pronouns = {render(entry["he"], story) for entry in story.cast.values() if "he" in entry}
        if len(pronouns) == 1 and "snowman" not in text and "creature" not in story.cast:
            (pronoun,) = pronouns
            checked[pronoun] += 1
            assert not re.search(foreign[pronoun], text), text
    assert min(checked.values()) > 100


def test_stories_vary(corpora, stories):
    assert len(stories) == len(set(stories))
    valid = corpora[1].decode("utf-8").split(END)[:-1]
    assert not set(stories) & set(valid)
    text = "\n".join(stories)
    assert len(set(re.findall(r"[^\W\d_]+", text.lower()))) >= 1_500
    people = read_sections("people.txt")
    for group in ("boys", "girls", "animal boys", "animal girls"):
        assert all(name in text for name in people[group].split())
    assert 500 < sum(map(len, stories)) / len(stories) < 1200
    # Characters of two and of three bytes, in some stories and not in most.
    share = sum(not story.isascii() for story in stories) / len(stories)
    assert 0.1 < share < 0.4
    assert {"é", "ë", "ö", "“", "”", "’", "—", "…"} <= set(text)


@pytest.mark.slow
def test_ten_megabytes_have_hardly_a_duplicate(tmp_path):
    train = write_sample(tmp_path / "train.txt", 10_000_000, 0).read_text("utf-8").split(END)[:-1]
    valid = write_sample(tmp_path / "valid.txt", 1_000_000, 1).read_text("utf-8").split(END)[:-1]
    assert sha256_file(tmp_path / "train.txt") == DATASETS["sample"].files["train"].sha256
    assert 1 - len(set(train)) / len(train) < 0.001
    assert len(set(train) & set(valid)) / len(valid) < 0.001


@pytest.mark.parametrize("num_bytes", [float("nan"), float("inf"), "5", None])
def test_a_size_that_is_no_integer_is_refused(tmp_path, num_bytes):
    with pytest.raises(TypeError, match="num_bytes is"):
        write_sample(tmp_path / "sample.txt", num_bytes)
    assert list(tmp_path.iterdir()) == []
