"""The parts of a tokenizer as lines of text."""

from cs336_basics import Tokenizer
from cs336_basics.splitting.patterns.named_patterns import GPT2
from cs336_basics.splitting.patterns.split_sequences import PREFIX, Split, sequence_pattern
from cs336_basics.tokenizer import AddedToken, PostProcessor, TokenizerDefinition
from cs336_basics.tokenizer.description import described, described_parts
from tests.tokenizer.examples import BYTES, small_tokenizer

VOCAB = {**BYTES, 256: b"ab", 300: b"<s>", 301: b"</s>", 302: b"<think>"}


def tokenizer(**changes):
    special = ["<s>", "</s>", AddedToken("<think>", special=False)]
    made = Tokenizer(VOCAB, [(b"a", b"b")], special, normalizer="NFC", ignore_merges=True)
    return Tokenizer.of(made.definition.replaced(**changes))


def test_each_part_has_a_line():
    both = PostProcessor((300, "A"), (300, "A", 301, "B"))
    lines = str(tokenizer(post_processor=both)).splitlines()
    assert lines == [
        "Tokenizer with 260 tokens, highest id 302",
        "  added tokens    2 special, 1 other: <s> </s> <think>",
        "  normalizer      NFC",
        "  split           gpt2",
        "  merges          1; a pre-token that is a token needs none (ignore_merges)",
        "  post-processor  <s> TEXT; for two texts <s> TEXT </s> PAIR",
    ]
    assert "\n" not in repr(tokenizer())


def test_parts_that_do_nothing_are_none():
    plain = Tokenizer(BYTES, [])
    assert described_parts(plain.definition) == {
        "added tokens": "none",
        "normalizer": "none",
        "split": "gpt2",
        "merges": "0",
        "post-processor": "none",
    }
    unchanged = plain.definition.replaced(post_processor=PostProcessor(source='{"type": "x"}'))
    assert described_parts(unchanged)["post-processor"] == "none"


def test_text_from_files_is_short_and_cannot_control_a_terminal():
    hostile = ["\x1b[31m" + "x" * 1000, "\u202e\n", *(f"<{i}>" for i in range(5000))]
    vocab = {**BYTES, **{300 + i: token.encode() for i, token in enumerate(hostile)}}
    for pattern in (
        r"\p{L}+|\x1b|" + "|".join(f"word{i}" for i in range(200)) + "|\x1b\n",
        sequence_pattern([Split("\u202e+"), *[Split(r"\d+", "MergedWithNext", True)] * 19]),
    ):
        made = Tokenizer(vocab, [], hostile, pattern=pattern).definition
        template = (*range(300, 700), "A")
        made = made.replaced(post_processor=PostProcessor(template, (*template, "B")))
        lines = described(made).splitlines()
        assert len(lines) == 6
        assert all(line.isprintable() and len(line) <= 220 for line in lines)
        assert "and 4,998 more" in lines[1]


def test_the_lines_are_those_of_print(capsys):
    print(small_tokenizer())
    assert capsys.readouterr().out == described(small_tokenizer().definition) + "\n"


def test_each_step_of_a_sequence_is_described():
    splits = [Split(r"\p{N}", "MergedWithNext", True), PREFIX, Split(GPT2)]
    definition = TokenizerDefinition(BYTES, [], pattern=sequence_pattern(splits))
    expected = (
        r"3 steps: \p{N} (MergedWithNext, inverted), then a space before a text without one, "
    )
    assert described_parts(definition)["split"] == expected + "then gpt2"
