"""The compiled scanner splits text like the reference at every SIMD level of this CPU."""

import os
import random
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from cs336_basics.splitting import _scanner, pattern_of_superwords, reference, splitter
from cs336_basics.splitting.patterns import named_patterns as patterns
from tests.errors import rejects
from tests.processes import run_python
from tests.texts import TEXTS, long_text
from tools import make_split_programs, make_unicode_tables

SIMD_LEVELS = _scanner.simd_levels()
# A pattern that is compiled when it is first used.
USER = (
    r"'(?:[sdmt]|ll|ve|re)| ?[\p{L}\p{M}]+| ?\p{N}{1,2}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
PATTERNS = (*patterns.PATTERNS, USER)
COMPILED = {name: patterns.compile_pattern(patterns.resolve_pattern(name)) for name in PATTERNS}
COMPILED = {name: found for name, found in COMPILED.items() if isinstance(found, regex.Pattern)}
"""The patterns that are a single expression."""
SCALAR_VALUES = [*range(0xD800), *range(0xE000, 0x110000)]
OTHER_UNICODE = regex.__version__ != make_unicode_tables.REGEX_VERSION

# All kinds of characters that the patterns distinguish. Error-prone characters appear repeatedly.
TYPED = (
    "' ' ' s t d m ll ve re S LL vE ſ K a b Zz 1 12 345 ² ٣ 五 ５ 𝟘 ½ é я 한 あ ー 字 e\u0301 "
    "\u0301 ह \u093f 𠀀 \U0003d000 ! ? ... — “ 😀 👨\u200d👩 \ufffd \ue000 \U0010ffff "
    "aB ABc Don't 'tX / // _ .x (( 1234567"
)
SAMPLES = TYPED.split()
SAMPLES += ["\n/", ";\n/*"]
SAMPLES += [" ", " ", "  ", "   ", "\n", "\n\n", "\r", "\r\n", "\t", "\v", "\f", "\x1c", "\x1f"]
SAMPLES += ["\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u202f", "\u3000", "\u200b", "\ufeff"]
SAMPLES += ["\0", "\x7f"]


def split_by_regex(text, pattern):
    """Return the pre-tokens of the reference, in less time if the pattern matches all text."""
    words = COMPILED[pattern].findall(text) if pattern in COMPILED else []
    return words if "".join(words) == text else list(reference.pretokenize(text, pattern))


def check(text, patterns=PATTERNS):
    data = text.encode()
    for pattern in patterns:
        words = split_by_regex(text, pattern)
        for simd_level in SIMD_LEVELS:
            found = list(_scanner.PreTokens(text, pattern, simd_level))
            assert found == words, f"{pattern}, {simd_level}, {text!r}"
        assert _scanner.num_pretokens(data, pattern, SIMD_LEVELS[-1]) == len(words)


def random_text(rng):
    samples = rng.sample(SAMPLES, rng.randint(1, 6)) if rng.random() < 0.7 else SAMPLES
    text = "".join(rng.choices(samples, k=rng.choice([2, 5, 20, 60, 150])))
    # A prefix shifts the text relative to the scanner's windows.
    return "x" * rng.randint(0, 70) + text if rng.random() < 0.3 else text


def test_simd_levels_are_listed_slowest_first():
    assert SIMD_LEVELS[0] == "scalar"
    assert set(SIMD_LEVELS) <= {"scalar", "neon", "avx2", "avx512"}
    assert _scanner.default_simd_level() in SIMD_LEVELS


def test_tables_of_the_named_patterns_are_current():
    text = make_split_programs.OUTPUT.read_text(encoding="utf-8")
    assert text == make_split_programs.render(), "run `python -m tools.make_split_programs`"


CONTEXTS = ("{}", "a{}a", " {} ", "1{}1", "!{}!", "'{}", "\n{}\n ", "  {}{}ab")


# Characters in common scripts, and every 173rd other character.
COMMON = [*range(0x600), *range(0x2000, 0x2070), *range(0x3000, 0x3100), *SCALAR_VALUES[0x600::173]]


@pytest.mark.skipif(OTHER_UNICODE, reason="the installed regex has a different Unicode version")
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(
    "codes", [COMMON, pytest.param(SCALAR_VALUES, marks=pytest.mark.slow)], ids=["common", "all"]
)
def test_scalar_values_are_split_in_every_context_as_regex_does(codes, context):
    for start in range(0, len(codes), 100_000):
        check("".join(context.replace("{}", chr(code)) for code in codes[start : start + 100_000]))


@pytest.mark.parametrize("all_shifts", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "'",
        "'s",
        "  ",
        "a ",
        "\n \n",
        "it's 'tis 'S 'LL 'ſ o''s !'s 's's '",
        "'re'Re've'VE'll'Ll'l'v'r'lx're",
        "a\n\n  \n    b\n    \n\tc \r\n\r\n d",
        "!\n\n \n x !\r\n\r\n!\n",
        "1234567 12 ٣٣٣٣٣٣٣ 1²3½45",
        "!abc !!abc \t!abc —abc e\u0301!abc \u3000abc  \u3000abc\u3000",
        "\n" + " " * 200 + "\n" + " " * 200 + "x" + " " * 100,
        "x" * 200 + "'s" + "字" * 100 + "!" * 100 + "1" * 100 + "\r\n" * 80 + "!" + "\n" * 100,
        "camelCase HTMLParser aB'llC don't's can'tX 'tis f\n/x //\n/* !/\n\n//",
        "12345678  1234 \t12 .name ((f \x1cname \x7f\x00x!\x1c!",
        "'été 'Así 'n\u0303 \"Да — «Нет» ¿Qué? €5 !\u0301a \u0301 !—a \u3000\u300012 а а字 \xada",
    ],
)
def test_examples_at_every_offset_in_a_window(text, all_shifts):
    for offset in range(66):
        shifted = [
            start + text + tail
            for start in ("x" * offset, "." + " " * offset)
            for tail in ("", "y" * 70)
        ]
        if all_shifts:
            for example in shifted:
                check(example)
        else:  # one shift, and every third pattern
            check(shifted[offset % 4], PATTERNS[offset % 3 :: 3])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(SAMPLES) | st.characters(codec="utf-8"), max_size=80).map("".join))
def test_any_text_is_split_as_regex_does(text):
    if not OTHER_UNICODE:
        check(text)


@pytest.mark.parametrize("count", [250, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_random_texts_are_split_as_regex_does(count):
    rng = random.Random(count)
    for _ in range(count):
        check(random_text(rng))


@pytest.mark.parametrize(("size", "count"), [(80, 5), (300, 3), (20_000, 1)])
def test_the_last_line_of_a_text_is_split_as_regex_does(size, count):
    lines = [r"[^\n]+|\n+", r"a+$|[^\n]|\n", *map(pattern_of_superwords, ("gpt2", "cl100k"))]
    rng = random.Random(size)
    for _ in range(count):
        text = random_text(rng) + "a line of words, " * (size // 17) + "a" * rng.randint(0, 70)
        for end in ("", "aa", " ", "   ", "\n", " \n", "\n\n", "7", " 7", "é", "\xa0"):
            check(text + end, lines)


def test_natural_and_hostile_texts_are_split_as_regex_does():
    for text in TEXTS.values():
        check(text)
    check(long_text(0, 60_000))


CORPORA = sorted(Path(os.environ.get("CS336_DATA", "/nonexistent")).glob("*.txt"))


@pytest.mark.skipif(not CORPORA, reason="CS336_DATA does not name a directory with *.txt files")
@pytest.mark.parametrize("size", [60_000, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.stem)
def test_corpora_are_split_as_regex_does(path, size):
    with open(path, "rb") as file:
        check(file.read(size).decode("utf-8", "replace"))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pretokenize_uses_the_scanner_and_equals_the_reference(pattern):
    text = "".join(SAMPLES) * 3
    for name in (pattern, splitter.resolve_pattern(pattern)):
        assert isinstance(splitter.pretokenize(text, name), _scanner.PreTokens)
        assert list(splitter.pretokenize(text, name)) == list(reference.pretokenize(text, pattern))


def test_pretokenize_accepts_other_patterns_and_lone_surrogates():
    assert list(splitter.pretokenize("a bc", r"\w")) == ["a", " ", "b", "c"]
    lone = "a \ud800's"
    assert list(splitter.pretokenize(lone)) == list(reference.pretokenize(lone))
    with rejects("pattern", "'b*'"):
        splitter.pretokenize("a", "b*")


def test_pretokenize_without_the_extension(monkeypatch):
    monkeypatch.setattr(splitter, "_scanner", None)
    assert not splitter.has_scanner("gpt2")
    assert list(splitter.pretokenize("it's so")) == ["it", "'s", " so"]


def test_bad_patterns_levels_and_bytes_raise():
    with rejects(None, "'\\\\b'"):
        _scanner.PreTokens("a", r"\b")
    with rejects("simd_level", "'sse9'"):
        _scanner.PreTokens("a", "gpt2", "sse9")
    with pytest.raises(ValueError, match="not valid UTF-8"):
        _scanner.num_pretokens(b"abc\xff")
    with pytest.raises(UnicodeEncodeError):
        _scanner.PreTokens("\ud800")


@pytest.mark.parametrize("simd_level", SIMD_LEVELS)
def test_an_environment_variable_sets_the_simd_level(simd_level):
    code = "from cs336_basics.splitting import _scanner as s; print(s.default_simd_level())"
    assert run_python(code, CS336_SIMD=simd_level).stdout.strip() == simd_level


def test_the_environment_variable_of_an_unsupported_simd_level_is_an_error():
    run = run_python("import cs336_basics.splitting._scanner", CS336_SIMD="sse9", check=False)
    assert "CS336_SIMD must be one of" in run.stderr
    assert "'sse9'" in run.stderr
