"""Parts of files that were once lost or refused are kept, with the behavior of tokenizers."""

from __future__ import annotations

import json
import pickle

import pytest

from cs336_basics._support.byte_alphabet import byte_to_character
from cs336_basics.formats import check_tokenizer, export_tokenizer
from cs336_basics.formats.gguf.gguf_vocab import CONTROL, NORMAL, USER_DEFINED, gguf_vocab
from cs336_basics.formats.huggingface.parsing import parse_tokenizer_json
from cs336_basics.splitting.splitter import has_scanner
from cs336_basics.tokenizer import Tokenizer
from cs336_basics.tokenizer.added_tokens import AddedToken
from tests.errors import rejects
from tests.formats.exported import chosen_texts, trained

tokenizers = pytest.importorskip("tokenizers")

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
              "use_regex": True}  # fmt: skip


def file(*added, merges=(), **changes):
    """Return the content of a file whose vocabulary has the bytes and the merges.

    Args:
        added: Content and flags of added tokens, which get the next ids.
        merges: Merges as strings.
        changes: Other parts of the file.
    """
    vocab = {character: byte for byte, character in byte_to_character().items()}
    for merge in merges:
        vocab[merge.replace(" ", "")] = len(vocab)
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": len(vocab) + i, "content": content, **dict.fromkeys(flags, False), **given}
            for i, (content, given) in enumerate(added)
        ],
        "normalizer": None, "pre_tokenizer": BYTE_LEVEL, "post_processor": None,
        "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": vocab, "merges": [*merges]},
        **changes,
    }  # fmt: skip


def both(content, directory):
    """Return the tokenizer of a file here, and in tokenizers."""
    path = directory / "tokenizer.json"
    path.write_text(json.dumps(content), "utf-8")
    return Tokenizer.from_pretrained(path), tokenizers.Tokenizer.from_file(str(path))


def test_an_added_token_may_have_the_bytes_of_an_ordinary_token(tmp_path):
    content = file(("  ", {"normalized": True}), merges=["Ġ Ġ"])
    ours, theirs = both(content, tmp_path)
    for text in ("a  b", "   ", "    a", " a"):
        assert ours.encode(text) == theirs.encode(text).ids
        assert ours.decode(ours.encode(text)) == text
    assert ours.encode("  ") == [257]
    assert ours.decode([256]) == ours.decode([257]) == "  "
    ours.save(tmp_path / "saved")
    assert Tokenizer.from_pretrained(tmp_path / "saved").definition == ours.definition


def test_bytes_that_utf8_never_has_may_be_absent(tmp_path):
    content = file(("<s>", {"special": True}), merges=["a b"])
    never = {0xC0, 0xC1, *range(0xF5, 0x100)}
    vocab = content["model"]["vocab"]
    kept = {text: number for text, number in vocab.items() if number not in never}
    content["model"]["vocab"] = {text: number for number, text in enumerate(kept)}
    content["added_tokens"][0]["id"] = len(kept)
    path = tmp_path / "tokenizer.json"
    ours, theirs = both(content, tmp_path)
    python = Tokenizer.from_pretrained(path, backend="python")
    ours.save(tmp_path / "saved")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
    for text in chosen_texts():
        ids = theirs.encode(text).ids
        assert ours.encode(text) == python.encode(text) == again.encode(text).ids == ids
    for tokenizer in (ours, python):
        with rejects(None, "0xff"):
            tokenizer.encode_array(b"ab\xff", errors="bytes")
    if has_scanner("gpt2"):
        assert type(ours.encoder) is not type(python.encoder)


def test_many_added_tokens_of_both_kinds_are_read(tmp_path):
    many = [(f"<｜place▁holder▁no▁{i}｜>", {"special": True}) for i in range(1237)]
    many += [(f"<｜tool▁call▁kind▁{i}｜>", {"normalized": True}) for i in range(46)]
    ours, theirs = both(file(*many), tmp_path)
    text = "".join(f"{content} a" for content, _ in many[::7])
    assert ours.encode(text) == theirs.encode(text).ids
    assert len(ours.special_tokens) == 1237


@pytest.mark.parametrize("normalized", [(False, True), (True, False), (True, True), (False, False)])
def test_overlapping_added_tokens_are_found_in_two_passes(tmp_path, normalized):
    first, second = normalized
    for one, other in (("<｜/table>｜", "｜DSML｜"), ("<ab>", "ab"), ("ab", "<ab>"), ("xyz", "zx")):
        content = file((one, {"normalized": first}), (other, {"normalized": second}))
        ours, theirs = both(content, tmp_path)
        for text in (one + other, other + one, one[:-1] + other, other[:-1] + one):
            assert ours.encode(text) == theirs.encode(text).ids


def test_added_tokens_that_are_not_special_stay_so(tmp_path):
    content = file(("<|im_end|>", {"special": True}), ("<think>", {}), ("    ", {}))
    ours, theirs = both(content, tmp_path)
    text = "<think>\n    x<|im_end|>"
    ids = ours.encode(text)
    assert ids == theirs.encode(text).ids
    assert ours.decode(ids, skip_special_tokens=True) == "<think>\n    x"
    assert ours.special_tokens == ["<|im_end|>"]
    assert ours.encode(text, allowed_special=[])[0] == 257
    assert ours.encode("<think>", disallowed_special="all") == [257]
    export_tokenizer(ours, "huggingface", tmp_path / "out")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert again.decode(ids, skip_special_tokens=True) == "<think>\n    x"
    assert "decoded" in check_tokenizer(ours, "huggingface", tmp_path / "out").lines[1]


def test_gguf_knows_control_tokens_and_user_defined_tokens():
    definition = parse_tokenizer_json(
        file(("<|x|>", {"special": True}), ("<think>", {}), merges=["a b"])
    )
    fields = gguf_vocab(definition, definition.size)
    types = fields["tokenizer.ggml.token_type"]
    assert types[256:] == [NORMAL, CONTROL, USER_DEFINED]
    assert (CONTROL, USER_DEFINED) == (3, 4)  # llama.cpp's numbers
    assert fields["tokenizer.ggml.tokens"][256:] == ["ab", "<|x|>", "<think>"]


def test_an_added_token_that_its_normalizer_changes_is_refused():
    token = ("\ufb01", {"normalized": True, "special": True})  # the ligature of f and i
    with rejects(None, "'fi'", "NFKC"):
        parse_tokenizer_json(file(token, normalizer={"type": "NFKC"}))
    assert parse_tokenizer_json(file(token, normalizer={"type": "NFC"})).special_tokens


def test_with_ignore_merges_an_added_token_in_the_vocabulary_must_always_be_found():
    def content(*added, **changes):
        found = file(*added, **changes)
        found["model"]["ignore_merges"] = True
        found["model"]["vocab"] |= {
            token["content"]: token["id"] for token in found["added_tokens"]
        }
        return found

    for refused in (
        content(("<w>", {"single_word": True})),
        content(("ab", {}), ("<ab>", {"single_word": True})),
        content(("<w>", {}), normalizer={"type": "NFKC"}),
    ):
        with rejects(None, "ignore_merges"):
            parse_tokenizer_json(refused)
    for accepted in (
        content(("<w>", {})),
        content(("<w>", {"normalized": True}), normalizer={"type": "NFKC"}),
    ):
        assert parse_tokenizer_json(accepted).ignore_merges


def test_with_ignore_merges_a_saved_file_has_the_tokens_that_merges_make(tmp_path):
    content = file(merges=["a b"])
    content["model"]["ignore_merges"] = True
    content["added_tokens"] = [{"id": 256, "content": "ab"}, {"id": 257, "content": "<s>"}]
    Tokenizer.of(parse_tokenizer_json(content)).save(tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("ab<s>", "a b", "abc"):
        ids = Tokenizer.from_pretrained(tmp_path).encode(text)
        assert ids == theirs.encode(text).ids
    assert theirs.encode("ab<s>").ids == [256, 257]


def test_a_file_without_splits_is_read(tmp_path):
    content = file(("<s>", {"special": True}), merges=["a Ġ", "aĠ b"])
    content["pre_tokenizer"] = {**BYTE_LEVEL, "use_regex": False}
    ours, theirs = both(content, tmp_path)
    for text in ("a b", "a\nb  <s>a b", "", "猫a b"):
        assert ours.encode(text) == theirs.encode(text).ids
    ours.save(tmp_path / "saved")
    again = json.loads((tmp_path / "saved" / "tokenizer.json").read_text("utf-8"))
    assert again["pre_tokenizer"]["use_regex"] is False


def test_a_file_without_a_decoder_is_decoded_to_its_text(tmp_path):
    ours, theirs = both(file(merges=["a b"], decoder=None), tmp_path)
    assert ours.encode("abc é") == theirs.encode("abc é").ids
    assert ours.decode(ours.encode("abc é")) == "abc é"


PARTS = {
    "flags": file(("<m>", {"lstrip": True, "special": True}), ("<w>", {"single_word": True})),
    "normalizer": file(normalizer={"type": "NFKC"}),
    "post-processor": file(post_processor={"type": "BertProcessing", "cls": ["a", 97],
                                           "sep": ["b", 98]}),
    "own id": file(("  ", {}), merges=["Ġ Ġ"]),
    "splits": file(pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"String": "a"}, "behavior": "MergedWithNext",
         "invert": False}, {**BYTE_LEVEL, "use_regex": False}]}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:the pre_tokenizer:UserWarning")
@pytest.mark.parametrize("name", PARTS)
def test_every_part_survives_pickling_and_files_that_only_we_can_read(tmp_path, name):
    definition = parse_tokenizer_json(PARTS[name])
    plain = parse_tokenizer_json(file())
    assert definition != plain
    assert definition.digest != plain.digest
    assert pickle.loads(pickle.dumps(definition)) == definition
    incomplete = definition.replaced(vocab={i: t for i, t in definition.vocab.items() if i != 7})
    for number, one in enumerate((definition, incomplete)):
        directory = tmp_path / str(number)
        Tokenizer.of(one).save(directory)
        again = Tokenizer.from_directory(directory).definition
        assert (again, again.digest) == (one, one.digest)
        version = json.loads((directory / "tokenizer.json").read_text("utf-8"))["version"]
        assert version == ("1.0" if one is definition else "cs336_basics")


BAD_OWN = [
    ("special_tokens", [{"content": "<m>", "lstrip": 1}]),
    ("special_tokens", [{"content": "<m>", "other": True}]),
    ("special_tokens", [{}]),
    ("normalizer", "NFX"),
    ("normalizer", ["NFC"]),
    ("post_processor", 5),
    ("post_processor", [["A", "C"], ["A", "B"], ""]),
    ("post_processor", [["A"], "AB", ""]),
    ("post_processor", [["A", True], ["A", "B"], ""]),
    ("post_processor", [["A", 10**6], ["A", "B"], ""]),
    ("post_processor", [["B"], ["A", "B"], ""]),
    ("post_processor", [["A"], ["A", "B"], "{"]),
    ("added_ids", {"<x>": 5}),
    ("added_ids", {"<m>": "5"}),
    ("added_ids", 7),
]


@pytest.mark.parametrize(("key", "value"), BAD_OWN)
def test_damaged_parts_of_a_file_that_only_we_can_read_are_refused(tmp_path, key, value):
    definition = parse_tokenizer_json(PARTS["flags"])
    incomplete = definition.replaced(vocab={i: t for i, t in definition.vocab.items() if i != 7})
    Tokenizer.of(incomplete).save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), key: value}), "utf-8")
    with rejects(None, place=path):
        Tokenizer.from_directory(path)


@pytest.mark.parametrize("kind", ["tokenizers", "transformers"])
def test_an_object_of_another_library_is_read(kind):
    theirs = tokenizers.Tokenizer.from_str(json.dumps(file(("<s>", {"special": True}))))
    if kind == "transformers":
        transformers = pytest.importorskip("transformers")
        source = transformers.PreTrainedTokenizerFast(tokenizer_object=theirs)
    else:
        source = theirs
    for load in (Tokenizer.from_huggingface, Tokenizer.from_pretrained):
        ours = load(source)
        assert ours.encode("a<s>") == theirs.encode("a<s>").ids
        assert ours.source is None


@pytest.mark.parametrize("source", [5, None, b"x", ["a"]])
def test_other_objects_are_refused(source):
    for load in (Tokenizer.from_huggingface, Tokenizer.from_pretrained):
        with rejects("source"):
            load(source)


# ------------------------------------------------------------------ exports that cannot say a part

LOST = [
    (("<m>", {"special": True, "lstrip": True}), {}, "lstrip"),
    (("<m>", {"special": True, "single_word": True}), {}, "single_word"),
    (("<m>", {}), {}, "'<m>' is not special"),
    (("<m>", {"special": True}), {"normalizer": {"type": "NFC"}}, "NFC"),
]


@pytest.mark.parametrize(("token", "parts", "shown"), LOST)
@pytest.mark.parametrize("to", ["tiktoken", "gpt2", "gguf"])
def test_a_part_that_a_format_cannot_say_is_refused(tmp_path, token, parts, shown, to):
    ours = Tokenizer.of(parse_tokenizer_json(file(token, merges=["a b"], **parts)))
    if to == "gguf":
        if "special" in shown:
            return
        with rejects(None, shown):
            gguf_vocab(ours.definition, len(ours))
        return
    with rejects(None, shown, "huggingface"):
        export_tokenizer(ours, to, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_order_of_the_two_searches_is_refused_only_where_it_matters(tmp_path):
    def exported(first, second):
        special = {"special": True}
        content = file((first, special), (second, {**special, "normalized": True}))
        ours = Tokenizer.of(parse_tokenizer_json(content))
        export_tokenizer(ours, "tiktoken", tmp_path / f"{len(first)}{second[:2]}")

    for first, second in (("<ab>", "ab"), ("ab", "<ab>"), ("<ab", "b>"), ("b>", "<ab")):
        with rejects(None, repr(first), repr(second), "normalized"):
            exported(first, second)
    exported("<a>", "[b]")


@pytest.mark.parametrize("to", ["tiktoken", "gpt2"])
def test_ids_that_an_export_does_not_add_are_named(tmp_path, to):
    post_processor = {"type": "BertProcessing", "cls": ["a", 97], "sep": ["b", 98]}
    ours = Tokenizer.of(parse_tokenizer_json(file(post_processor=post_processor)))
    with pytest.warns(UserWarning, match="97, 98"):
        export_tokenizer(ours, to, tmp_path / "out")
    assert check_tokenizer(ours, to, tmp_path / "out").lines


def test_added_tokens_can_be_given_in_python(tmp_path):
    plain = trained("gpt2")
    tokens = [*plain.special_tokens, AddedToken("<m>", lstrip=True), AddedToken("<t>", False)]
    ours = Tokenizer(plain.vocab, plain.merges, tokens, normalizer="NFC")
    export_tokenizer(ours, "huggingface", tmp_path / "out")
    assert check_tokenizer(ours, "huggingface", tmp_path / "out").lines
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    for text in ("a  <m> b<t>", "e\u0301<t> <m>"):
        assert ours.encode(text) == theirs.encode(text).ids
