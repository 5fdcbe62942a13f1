"""Compiled split patterns match as `regex` does, in linear time. Other patterns are rejected."""

import random
import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from cs336_basics.splitting import PATTERNS, Splitter, _scanner, pretokenize, reference, splitter
from cs336_basics.splitting.patterns import char_sets, split_program
from cs336_basics.splitting.patterns.pattern_syntax import UnsupportedPatternError
from cs336_basics.splitting.patterns.split_program import compile_program, find_program
from tests.errors import rejects
from tests.texts import TEXTS
from tests.tokenizer.examples import byte_tokenizer
from tools import make_unicode_tables

OTHER_UNICODE = regex.__version__ != make_unicode_tables.REGEX_VERSION
ALPHABET = [*"aabbcxyzABKISſıİ \t\n\r''112,.-/", "\u212a", "é", "中", "あ", "・", "\u3040"]
ALPHABET += ["\u3000", "١", "½", "\u0301", "😀", "\u200d", "\u00a0", "\u2028", "\x85", "\0"]
ALPHABET += ["ll", "'ve", "'RE", "  ", "\r\n", "1234567"]
# All supported constructs, and alternatives whose order matters.
EXPRESSIONS = [
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"a*b|a|(?:ab|abab)+?c|[^ab]{2,3}?|x{2,4}+y",
    r"(?i:k|is)|\w+$|\d{2}(?=\s|$)|\W",
    r"[aby]$\n|\w+$\s|a(?=b|$)\W|\w+|\s",
    r"(a|ab)(c|bcd)(d*)|[a-d]",
    r"\p{Lu}\p{Ll}*|\d+",
    r"(?i)[a-ks]+|i|.",
    r"(?s)..|.",
    r"\p{Han}+|[\p{Hiragana}\p{Katakana}]+|\P{L}|\p{^M}",
    r"[^\S\n]+|\n|\S+?(?=\s)|\S",
    r"(?P<word>\w+)\Z|(?:\w|\W)",
    r"[\x61-\u0063]+|\U00004e2d|[]^-]|[^]a-c]",
    r"a{2}b{0,2}c{1,}|a{,2}b|\.\-|\[",
    r"(?:a?b)?+a|b++b|[ab]?+c|\s",
]


def random_text(rng, longest=30):
    samples = rng.sample(ALPHABET, rng.randint(2, 8)) if rng.random() < 0.6 else ALPHABET
    return "".join(rng.choices(samples, k=rng.randrange(longest)))


@pytest.mark.parametrize("count", [40, pytest.param(50_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("expression", [*PATTERNS.values(), *EXPRESSIONS[:-1]])
def test_matches_equal_those_of_regex(expression, count):
    program = compile_program(expression)
    rng = random.Random(1)
    for text in (*TEXTS.values(), *(random_text(rng) for _ in range(count))):
        words = list(reference.pretokenize(text, expression))
        assert list(_scanner.PreTokens(text, program)) == words, repr(text)
        assert _scanner.num_pretokens(text.encode(), program) == len(words)


def random_expression(rng, depth=2):
    atoms = ["a", "b", "[ab]", r"\s", r"\S", ".", "[^b]", r"\p{L}", " ", r"\d"]
    atoms += ["(?i:k)", "(?i:ab)", "[^A1]", r"[^\s\p{Lu}]", r"[^\u2028-\u3000\d]"]
    kind = rng.randrange(6 if depth else 2)
    if kind <= 1:
        return rng.choice(atoms)
    if kind == 2:
        return "".join(random_expression(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    if kind == 3:
        options = [random_expression(rng, depth - 1) for _ in range(rng.randint(2, 3))]
        return f"(?:{'|'.join(options)})"
    if kind == 4:
        look = rng.choice([r"(?!\S)", "(?=a)", "(?!b)", "(?=[ab]|$)", "$", "(?m:$)", r"\Z"])
        return random_expression(rng, depth - 1) + look
    if kind == 5 and rng.random() < 0.2:
        look = rng.choice(["$", "(?=a|$)", r"(?=\s)", "(?!b)", r"\Z"])
        return random_expression(rng, depth - 1) + look + rng.choice([*atoms, r"\n"])
    item = rng.choice([rng.choice(atoms), f"(?:{random_expression(rng, depth - 1)})"])
    suffix = rng.choice(["", "", "?", "+"])
    return item + rng.choice(["?", "*", "+", "{2}", "{1,2}", "{2,}"]) + suffix


def test_random_expressions_match_as_regex_does_or_are_rejected():
    rng = random.Random(4)
    compiled = 0
    while compiled < 300:
        expression = random_expression(rng)
        try:
            program = split_program.compile_program.__wrapped__(expression)
        except UnsupportedPatternError:
            continue
        compiled += 1
        for _ in range(20):
            text = "".join(rng.choices("aabAkK\u212aſ \n1é", k=rng.randrange(12)))
            words = list(reference.pretokenize(text, f"(?:{expression})"))
            found = list(_scanner.PreTokens(text, program))
            assert found == words, (expression, text)


@pytest.mark.parametrize("level", _scanner.simd_levels())
@pytest.mark.parametrize("expression", [r".[^b]\Z|[\s\S]", r".[^b]$|[\s\S]"])
def test_a_text_may_end_at_any_byte_of_a_window(expression, level):
    # The last character has several bytes, so the rules do not see what follows it.
    program = compile_program(expression)
    for last in "aé中😀":
        for length in range(56, 66):
            for end in ("", "\n"):
                text = "x" * length + "é"[: length % 2] + last + end
                words = list(reference.pretokenize(text, expression))
                assert list(_scanner.PreTokens(text, program, level)) == words, text


def check_random_pattern(rng):
    """Compare a random pattern with `regex` at every SIMD level. Return whether it is compiled."""
    options = [random_expression(rng) for _ in range(rng.randint(1, 4))]
    expression = "|".join([*options, rng.choice([r"\s+(?!\S)|", ""]) + r"[\s\S]"])
    try:
        program = split_program.compile_program.__wrapped__(expression)
    except UnsupportedPatternError:
        return False
    for _ in range(3):
        alphabet = rng.sample("aabAkK\u212aſ \n1é中\u2028😀", rng.randint(2, 8))
        text = "".join(rng.choices(alphabet, k=rng.randrange(60, 300)))
        words = list(reference.pretokenize(text, expression))
        for level in _scanner.simd_levels():
            found = list(_scanner.PreTokens(text, program, level))
            assert found == words, (expression, text, level)
    return True


@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.slow)])
def test_random_patterns_split_long_texts_as_regex_does_at_every_simd_level(count):
    # Texts of several windows use the rules that are derived from the program.
    rng = random.Random(count)
    compiled = 0
    while compiled < count:
        compiled += check_random_pattern(rng)


@pytest.mark.parametrize("count", [100, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("expression", [*PATTERNS.values(), *EXPRESSIONS[:-1]])
def test_both_sides_of_a_safe_cut_are_split_like_the_complete_text(expression, count):
    program = compile_program(expression)
    cuts = Splitter(pattern=expression).safe_cuts
    rng = random.Random(5)
    num_cuts = num_found = 0
    for _ in range(count):
        text = random_text(rng)
        whole = list(reference.pretokenize(text, expression))
        for index in range(1, len(text)):
            left, right = text[:index], text[index:]
            offset = len(left.encode())
            if program.is_safe_cut(left[-1], right[0]):
                num_cuts += 1
                halves = [reference.pretokenize(half, expression) for half in (left, right)]
                assert [word for half in halves for word in half] == whole, (text, index)
            if cuts.first(text.encode(), offset, offset) is not None:
                num_found += 1
                assert program.is_safe_cut(left[-1], right[0])
    if expression != r"(?s)..|.":  # this pattern has no safe cuts
        assert num_cuts > 100
        assert num_found > 50


# Whether a line feed is the last character of a text decides on matches of these patterns.
WITH_END = [
    r"\s+$|\s*\n|\S+", r"\s+$|\s*[\r\n]|\s+(?!\S)|\s|\S+", r"\S+\n?|\s+$|\s+", r"a\n|a$|\s|\S",
    r"\s+$|\S+|\s", r"x$|\S|\s+(?!\S)|\s+", r"[a\n]+$|\n|.", r"\n+$|\n|.+", r"(?s:.)$|\S+|\s+",
]  # fmt: skip


@pytest.mark.parametrize("expression", [*WITH_END, *PATTERNS.values()])
def test_a_safe_cut_after_a_line_feed_is_safe_though_it_ends_the_text(expression):
    program = compile_program(expression)
    following = [chr(code) for code in range(128) if program.is_safe_cut("\n", chr(code))]
    rng = random.Random(3)
    for _ in range(150 if following else 0):
        left = "".join(rng.choices("\n\n \ra1'.x!é", k=rng.randint(0, 6))) + "\n"
        right = rng.choice(following) + "".join(rng.choices("\n \ra1'.!é", k=rng.randint(0, 4)))
        parts = [*pretokenize(left, expression), *pretokenize(right, expression)]
        assert parts == [*pretokenize(left + right, expression)], (left, right)
    if expression in (PATTERNS["cl100k"], *WITH_END[:3]):
        assert {*"0aZ."} <= {*following}


@pytest.mark.parametrize(
    ("expression", "fields"),
    [
        (r"\bword\b|.", (None, r"\b' at index 0")),
        (r"(?<=a)b|.", (None, "'(?<='", "index 0")),
        (r"(a)\1|.", (None, "at index 3")),
        (r"a(?=bc)|.", (None, "(?=...)")),
        (r"(?>a+)b|.", (None, "'(?>a'", "index 0")),
        (r"(?:ab)++|.", (None, "'++'", "index 6")),
        (r"^a|.", (None, "'^'", "index 0")),
        (r"\X|.", (None, r"\X' at index 0")),
        (r"(?i:é)|.", (None, "(?i)")),
        (r"(?i)\p{Lu}|.", (None, "p{Lu}")),
        (r"[[:alpha:]]|.", (None, "'[:'", "index 1")),
        (r"(?:a*)*b|.", (None, "repeats")),
        (r"(?=a)|b", (None, "empty string")),
        (r"(?:a{99}){99}|.", (None, "2,000")),
        (r"(?x)a|.", (None, "'(?x)'", "index 0")),
        (r"a{1001}|.", (None, "'{1001}'", "index 1")),
        (r"\p{Cyrl}|.", (None, "p{Cyrl}")),
        (r"[^\s\S]x|.", (None, "index 0")),
        (r"a{,1000}+b|.", (None, "'{,1000}+'", "index 1")),
    ],
)
def test_messages_locate_the_unsupported_part(expression, fields):
    regex.compile(expression)
    with rejects(*fields, kind=UnsupportedPatternError):
        compile_program(expression)


@pytest.mark.parametrize(
    ("expression", "text", "words"),
    [
        (r"(?:(?i:sk)|[^\u2028-\u3000\d])", "zkk1s", ["z", "k", "k", "1", "s"]),
        (r"(?i:ab)|[^\s\p{Lu}]", "xS aB", ["x", "S ", "aB"]),
    ],
)
def test_the_regex_bug_with_first_characters_is_avoided(expression, text, words):
    assert list(reference.pretokenize(text, expression)) == words
    assert list(pretokenize(text, expression)) == words
    assert find_program(expression) is not None
    without = rf"{expression}|(?<=a)b"  # a lookbehind cannot be compiled
    assert find_program(without) is None
    assert list(pretokenize(text, without)) == words


@pytest.mark.parametrize("expression", [r"[^\s\S]x|.", r"[^\d\D]|a"])
def test_a_negated_set_of_everything_matches_as_in_the_reference(expression):
    words = list(reference.pretokenize("axbx", expression))
    assert list(pretokenize("axbx", expression)) == words


def test_a_slow_search_by_regex_times_out(monkeypatch):
    monkeypatch.setattr(splitter, "SEARCH_TIMEOUT", 0.1)
    with rejects(None, "0.1"):
        list(pretokenize("a" * 40, r"(?<!x)(?:a|aa)+[bc]|."))


@pytest.mark.parametrize("name", ["encode", "encode_array", "encode_with_offsets"])
def test_encoding_with_a_slow_pattern_times_out(monkeypatch, name):
    monkeypatch.setattr(splitter, "SEARCH_TIMEOUT", 0.1)
    tokenizer = byte_tokenizer(pattern=r"(?<!x)(?:a|aa)+[bc]|[\s\S]")
    with rejects(None, "0.1"):
        getattr(tokenizer, name)("a" * 60)


@pytest.mark.parametrize(
    "expression",
    [r"\b\w+|\W", r"(?<=a)b|a+|.", r"(?=a)|b+", r"(?<!a)\b|a|.", r"(a)\1|\w", r"\Ga|b", r"^a|b$|."],
)
def test_patterns_that_cannot_be_compiled_split_like_the_reference(expression):
    assert find_program(expression) is None
    rng = random.Random(6)
    for _ in range(300):
        text = "".join(rng.choices("aab é\n", k=rng.randrange(12)))
        assert list(pretokenize(text, expression)) == list(reference.pretokenize(text, expression))


def test_a_program_says_whether_it_matches_all_text():
    assert not compile_program(r"\w+|\s+").matches_all_text
    assert not compile_program(r"a*b|c").matches_all_text
    assert not compile_program(r"\S+(?=\s)|\s+").matches_all_text
    assert compile_program(r"\w+|\W").matches_all_text
    for expression in PATTERNS.values():
        assert compile_program(expression).matches_all_text


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (r"[a-z]+", ["  ", "ab", ", 12", "c", "!?\n"]),
        (r"\w+(?=,)|\d", ["  ", "ab", ", ", "1", "2", "c!?\n"]),
        (r"x+", ["  ab, 12c!?\n"]),
        (r"(?<=a)b|(?<=\d)(?=\d)|c", ["  a", "b", ", 1", "2", "c", "!?\n"]),  # not compiled
    ],
)
def test_text_between_matches_is_a_pre_token(expression, words):
    text = "".join(words)
    assert list(reference.pretokenize(text, expression)) == words
    assert list(pretokenize(text, expression)) == words
    assert list(splitter.search_pretokens(text, expression)) == words
    assert list(pretokenize("", expression)) == []


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("a*b|a", "a" * 50_000),  # every a starts a search for b
        ("(?:aaa)*b|(?:aa)*c|a", "a" * 50_000),  # similar, but the states never coincide
        (PATTERNS["llama3"], (" " * 300 + "\n") * 10 + " " * 80_000 + "x"),
        (PATTERNS["gpt2-digits3-right"], "7" * 100_000),
        (r"\p{L}*1|\d", "é" * 50_000),  # nothing matches
    ],
)
def test_matching_takes_linear_time(expression, text):
    program = compile_program(expression)

    def seconds(size):
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            _scanner.num_pretokens(text[-size:].encode(), program)
            best = min(best, time.process_time() - start)
        return best

    # If the text is eight times as long, a quadratic matcher takes 64 times as long.
    assert seconds(len(text)) < 30 * max(seconds(len(text) // 8), 1e-3)


def test_the_scanner_of_a_pattern_is_made_once():
    before = _scanner.compiled_pattern.cache_info().misses
    for text in ("ab", "cd ef", ""):
        list(pretokenize(text, r"[abc]+|[^abc]"))
    assert _scanner.compiled_pattern.cache_info().misses == before + 1


def test_sets_equal_those_of_the_pinned_regex():
    if OTHER_UNICODE:
        pytest.skip(f"regex {regex.__version__} may have a different Unicode version")
    text = make_unicode_tables.SETS_OUTPUT.read_text(encoding="ascii")
    assert make_unicode_tables.render_sets(make_unicode_tables.property_sets()) == text


@given(
    st.lists(st.integers(0, 0x10FFFF), max_size=8), st.lists(st.integers(0, 0x10FFFF), max_size=8)
)
def test_set_operations_equal_those_of_python_sets(left, right):
    characters = {*left, *right, 0, 0x10FFFF}
    first = char_sets.CharSet.of(map(chr, left))
    second = char_sets.CharSet.of(map(chr, right)).complement()
    both = char_sets.intersection([first, second])
    either = char_sets.union([first, second])
    for code in characters:
        assert (code in first) == (code in left)
        assert (code in second) == (code not in right)
        assert (code in both) == (code in left and code not in right)
        assert (code in either) == (code in left or code not in right)
    assert first.complement().complement() == first
    assert char_sets.EVERYTHING.complement() == char_sets.CharSet()
