"""A model card has valid metadata and omits facts that are not known."""

from __future__ import annotations

import dataclasses
import re

import yaml

from cs336_basics.formats import ModelCard
from cs336_basics.formats.model_card import card_text
from cs336_basics.model import ModelConfig

CONFIG = ModelConfig(vocab_size=1000, context_length=64, d_model=32, num_layers=2, num_heads=2)


def test_the_metadata_is_yaml_with_an_unknown_license():
    text = card_text(ModelCard(), CONFIG, "my-model", "<s>")
    _, metadata, body = text.split("---\n", 2)
    assert yaml.safe_load(metadata) == {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "license": "unknown",
        "tags": ["cs336-basics"],
    }
    assert "# Fill in the license" in metadata
    assert body.startswith("\n# my-model\n")


def test_unknown_facts_are_omitted():
    text = card_text(ModelCard(), CONFIG, "my-model", "<s>")
    for absent in ("optimizer steps", "tokens trained on", "loss", "Trained on", "None"):
        assert absent not in text
    assert f"{CONFIG.num_parameters():,} weights" in text
    assert "exported as a Llama" in text


def test_qk_norm_and_tied_embeddings_are_explained():
    config = dataclasses.replace(CONFIG, qk_norm=True, tied_embeddings=True)
    text = card_text(ModelCard(), config, "x", "<s>")
    assert "exported as a Qwen3" in text
    assert "tied in training" in text


def test_the_python_of_the_card_compiles():
    text = card_text(ModelCard(), CONFIG, 'odd "name"', "<s>")
    code = text.split("```python\n")[1].split("```")[0]
    compile(code, "card", "exec")
    assert repr('odd "name"') in code
    chat = card_text(ModelCard(chats=True), CONFIG, "x", "<s>")
    code = chat.split("```python\n")[1].split("```")[0]
    compile(code, "card", "exec")
    assert "apply_chat_template" in code


def test_names_cannot_break_the_table():
    card = ModelCard(data={"training: a|b`c\nd.txt": "1" * 64})
    (row,) = [line for line in card_text(card, CONFIG, "x", "<s>").splitlines() if "1" * 64 in line]
    assert row.count("|") - row.count("\\|") == 3
    assert "\n# two lines\n" in card_text(card, CONFIG, "two\nlines", "<s>")


def test_names_and_hashes_have_no_effect_in_markdown_and_html():
    hostile = "t<svg onload=alert(2)>`[a](b) ![c](d)"
    card = ModelCard(data={hostile: "`<b>`"}, losses={"<i>": 1.0})
    text = card_text(card, CONFIG, hostile, "<s>")
    shown = [line for line in text.splitlines() if line.startswith(("# t", "| t", "| \\<i"))]
    assert len(shown) == 3
    for line in shown:
        name = line.removesuffix(" | `` `<b>` `` |")
        assert not re.search(r"(?<!\\)[<>`\[\]]", name), line
