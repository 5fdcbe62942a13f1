"""`tokenizer(text)` adds the ids of its post-processor, and `encode` adds none."""

from __future__ import annotations

import pytest

from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.definition import TokenizerDefinition
from cs336_basics.tokenizer.post_processor import PostProcessor
from tests.errors import rejects
from tests.tokenizer.examples import BYTES

TEMPLATES = PostProcessor((256, "A", 257), (256, "A", 257, "B", 257))


def tokenizer(post_processor=TEMPLATES):
    definition = TokenizerDefinition(BYTES, [], ["<s>", "</s>"], post_processor=post_processor)
    return Tokenizer.of(definition)


def test_the_ids_of_the_template_are_added_on_request():
    ours = tokenizer()
    assert ours.encode("ab") == [97, 98]
    assert ours("ab") == {"input_ids": [256, 97, 98, 257], "attention_mask": [1, 1, 1, 1]}
    assert ours("ab", add_special_tokens=False)["input_ids"] == [97, 98]
    assert ours("ab", "c")["input_ids"] == [256, 97, 98, 257, 99, 257]
    assert ours("ab", "c", add_special_tokens=False)["input_ids"] == [97, 98, 99]
    assert ours(["a", ""], ["b", "c"])["input_ids"] == [
        [256, 97, 257, 98, 257],
        [256, 257, 99, 257],
    ]
    padded = ours(["a", "abc"], padding=True, pad_id=0)
    assert padded["input_ids"] == [[256, 97, 257, 0, 0], [256, 97, 98, 99, 257]]
    assert padded["attention_mask"] == [[1, 1, 1, 0, 0], [1] * 5]


def test_two_texts_are_joined_without_a_post_processor():
    ours = tokenizer(None)
    assert ours("ab", "c")["input_ids"] == [97, 98, 99]
    assert ours("ab")["input_ids"] == [97, 98]


def test_truncation_leaves_room_as_tokenizers_does():
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({chr(i): i for i in range(256)} | {"<s>": 256, "</s>": 257})
    )
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    theirs.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B </s>",
        special_tokens=[("<s>", 256), ("</s>", 257)],
    )
    ours = tokenizer()
    for length in range(4, 12):
        theirs.enable_truncation(length)
        for first in ("", "a", "abc", "abcdefg"):
            for second in (None, "", "x", "xyz", "xyzuvwt"):
                for add in (True, False):
                    expected = theirs.encode(first, second, add_special_tokens=add).ids
                    found = ours(
                        first, second, truncation=True, max_length=length, add_special_tokens=add
                    )
                    assert found["input_ids"] == expected, (length, first, second, add)


def test_bad_arguments_of_a_call_are_refused():
    ours = tokenizer()
    with rejects("text_pair"):
        ours("a", ["b"])
    with rejects("text_pair", "2", "1"):
        ours(["a", "b"], ["c"])
    with rejects("add_special_tokens", "'no'"):
        ours("a", add_special_tokens="no")
    with rejects("max_length", "2", "1"):
        ours("a", truncation=True, max_length=1)


@pytest.mark.parametrize(
    "post_processor",
    [
        5,
        PostProcessor((999, "A")),
        PostProcessor(("A", "B")),
        PostProcessor((256,)),
        PostProcessor(("A",), ("A",)),
        PostProcessor((True, "A")),
        PostProcessor((None, "A")),
    ],
)
def test_a_bad_post_processor_is_refused(post_processor):
    with rejects("post_processor"):
        tokenizer(post_processor)


def test_only_templates_that_add_ids_change_the_hash():
    plain = tokenizer(None).hash()
    assert tokenizer(PostProcessor(source='{"type": "ByteLevel"}')).hash() == plain
    assert tokenizer().hash() != plain


def test_ids_are_renumbered():
    assert TEMPLATES.renumbered({256: 1, 257: 2}) == PostProcessor((1, "A", 2), (1, "A", 2, "B", 2))


def test_templates_made_in_python_are_written_and_read(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    ours = tokenizer()
    ours.save(tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    again = Tokenizer.from_pretrained(tmp_path)
    for pair in (None, "c"):
        assert ours("ab", pair) == again("ab", pair)
        assert ours("ab", pair)["input_ids"] == theirs.encode("ab", pair).ids
    assert again.hash() == ours.hash()
