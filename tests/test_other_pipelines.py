"""Other programs that train models can read exported tokenizers and token files."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cs336_basics.formats import export_tokenizer
from cs336_basics.tokenizer import encode_rows, load_token_file
from tests.documents.blocks import ROOT, read_page
from tests.tokenizer.examples import END, FRAGMENTS, TRAINING_TEXT, small_tokenizer

pytest.importorskip("tokenizers")

TEXTS = ["", "a", TRAINING_TEXT, "b" + END + "c", *FRAGMENTS]


@pytest.fixture(scope="module")
def tokenizer():
    return small_tokenizer()


@pytest.fixture(scope="module")
def exported(tokenizer, tmp_path_factory):
    """Return the directory of the exported tokenizer."""
    directory = tmp_path_factory.mktemp("exported") / "hf"
    export_tokenizer(tokenizer, "huggingface", directory)
    return str(directory)


def test_torchtitan_reads_an_exported_tokenizer(tokenizer, exported):
    pytest.importorskip("torchtitan", reason="needs torchtitan")
    from torchtitan.components.tokenizer import HuggingFaceTokenizer

    theirs = HuggingFaceTokenizer(tokenizer_path=exported)
    end = tokenizer.special_token_id(END)
    assert (theirs.eos_id, theirs.get_vocab_size()) == (end, tokenizer.vocab_size)
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert theirs.encode(text) == ids
        # Its data loader encodes documents with these arguments.
        assert theirs.encode(text, add_bos=True, add_eos=True) == [*ids, end]
        assert theirs.decode(ids, skip_special_tokens=False) == text


def test_litgpt_reads_an_exported_tokenizer(tokenizer, exported):
    pytest.importorskip("litgpt", reason="needs litgpt")
    from litgpt.tokenizer import Tokenizer

    theirs = Tokenizer(exported)
    end = tokenizer.special_token_id(END)
    assert (theirs.eos_id, theirs.vocab_size) == (end, tokenizer.vocab_size)
    for text in TEXTS:
        if not text.endswith(END):  # LitGPT removes this token regardless of the arguments
            ids = tokenizer.encode(text)
            assert theirs.encode(text).tolist() == ids
            assert theirs.encode(text, eos=True).tolist() == [*ids, end]
        if END not in text:  # LitGPT does not decode special tokens
            assert theirs.decode(theirs.encode(text)) == text


def test_litgpt_encodes_text_files_if_the_tokenizer_has_a_bos_token(tokenizer, tmp_path):
    pytest.importorskip("litgpt", reason="needs litgpt")
    from litgpt.data.text_files import tokenize
    from litgpt.tokenizer import Tokenizer

    export_tokenizer(tokenizer, "huggingface", tmp_path / "hf", bos_token=END)
    (tmp_path / "a.txt").write_text("It's the cat.\n\nA cat" + END + "the end")
    (ids,) = tokenize(str(tmp_path / "a.txt"), Tokenizer(tmp_path / "hf"))
    assert ids.tolist() == tokenizer.encode(f"{END}It's the cat.\n\nA cat{END}the end")


def test_megatron_reads_an_exported_tokenizer(tokenizer, exported):
    pytest.importorskip("megatron.core", reason="needs megatron-core")
    pytest.importorskip("transformers")
    from megatron.core.tokenizers.text.libraries.huggingface_tokenizer import HuggingFaceTokenizer

    theirs = HuggingFaceTokenizer(exported)
    assert theirs.eos_id == tokenizer.special_token_id(END)
    assert [theirs.text_to_ids(text) for text in TEXTS] == tokenizer.encode_batch(TEXTS)


def program_with(word):
    """Return the program on the page that contains `word`."""
    page = read_page(ROOT / "docs" / "other-pipelines.md")
    (code,) = (b.code for b in page.blocks if b.kind == "python" and word in b.code)
    return code


def test_litgpt_reads_the_token_files_that_the_program_on_the_page_writes(tokenizer, tmp_path):
    pytest.importorskip("litdata", reason="needs litdata")
    pytest.importorskip("litgpt", reason="needs litgpt")
    from litgpt.data import LitData

    encode_rows(tokenizer, TEXTS, tmp_path / "stories.npy", end_of_document=END)
    (tmp_path / "program.py").write_text(program_with("litdata"))
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True, timeout=300)
    data = LitData(tmp_path / "stories-litdata", num_workers=0)
    data.connect(batch_size=1, max_seq_length=4)
    found = [ids for batch in data.val_dataloader() for ids in batch.flatten().tolist()]
    ids = load_token_file(tmp_path / "stories.npy").tolist()
    assert found == ids[: len(ids) // 5 * 5]  # LitGPT drops a trailing partial window
