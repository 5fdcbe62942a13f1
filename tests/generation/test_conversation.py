"""The texts of a conversation, also as transformers' chat template writes them."""

from __future__ import annotations

import itertools

import pytest

from cs336_basics._support.text import ASSISTANT, END_OF_TEXT, USER
from cs336_basics.formats import ModelCard, export_model
from cs336_basics.generation.conversation import Conversation
from cs336_basics.model import ModelConfig, TransformerLM
from tests.errors import rejects
from tests.tokenizer.examples import byte_tokenizer

TOKENIZER = byte_tokenizer(END_OF_TEXT, USER, ASSISTANT)
TURNS = [("Who?", "The cat."), ("Where?\n", ""), ("", " na\u00efve \u20ac"), ("{{ x }}", "'\"\\n")]


def expected_text(turns, prompt):
    """Return the text of a conversation, written out."""
    earlier = "".join(
        f"<|user|>{asked}<|assistant|>{answer}<|endoftext|>" for asked, answer in turns
    )
    return f"{earlier}<|user|>{prompt}<|assistant|>"


def converse(conversation, turns):
    for prompt, answer in turns:
        assert "".join(conversation.recorded(prompt, iter(answer))) == answer


def test_earlier_turns_come_first_until_they_are_forgotten():
    conversation = Conversation(TOKENIZER, 1000, 10)
    for count in range(len(TURNS)):
        assert conversation.text_for("And?") == expected_text(TURNS[:count], "And?")
        converse(conversation, TURNS[count : count + 1])
    conversation.forget()
    assert conversation.text_for("And?") == expected_text([], "And?")


def test_an_interrupted_answer_is_remembered_as_far_as_it_was_shown():
    conversation = Conversation(TOKENIZER, 1000, 10)
    shown = list(itertools.islice(conversation.recorded("Who?", iter(["The", " cat", " sat"])), 2))
    assert conversation.text_for("And?") == expected_text([("Who?", "".join(shown))], "And?")


def test_a_rejected_prompt_is_not_remembered():
    conversation = Conversation(TOKENIZER, 1000, 10)
    with rejects("prompt", USER):
        conversation.text_for(f"a{USER}")
    assert conversation.text_for("And?") == expected_text([], "And?")


@pytest.mark.parametrize("max_new_tokens", [1, 20, 1000])
@pytest.mark.parametrize("context_length", [8, 30, 60, 200])
def test_the_oldest_turns_are_forgotten_when_there_is_no_room(context_length, max_new_tokens):
    conversation = Conversation(TOKENIZER, context_length, max_new_tokens)
    converse(conversation, TURNS)
    room = context_length - min(max_new_tokens, context_length // 2)
    found = conversation.text_for("And?")
    fitting = [
        text
        for first in range(len(TURNS) + 1)
        if len(TOKENIZER.encode(text := expected_text(TURNS[first:], "And?"))) <= room
    ]
    assert found == (fitting[0] if fitting else expected_text([], "And?"))


def test_transformers_writes_the_same_text(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("jinja2")
    config = ModelConfig(
        vocab_size=259, context_length=64, d_model=8, num_layers=1, num_heads=2, d_ff=16
    )
    card = ModelCard(chats=True)
    export_model(TransformerLM(config), TOKENIZER, "huggingface", tmp_path / "chat", card=card)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "chat", local_files_only=True)
    conversation = Conversation(TOKENIZER, 10_000, 10)
    messages = []
    for prompt, answer in TURNS:
        messages.append({"role": "user", "content": prompt})
        expected = conversation.text_for(prompt)
        found = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert found == expected
        ids = theirs.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
        assert ids == TOKENIZER.encode(expected)
        converse(conversation, [(prompt, answer)])
        messages.append({"role": "assistant", "content": answer})
    whole = theirs.apply_chat_template(messages, tokenize=False)
    assert whole + f"{USER}And?{ASSISTANT}" == conversation.text_for("And?")
    with pytest.raises(Exception, match="must be user and assistant"):
        theirs.apply_chat_template([{"role": "system", "content": "Hi"}], tokenize=False)


def test_only_models_trained_on_turns_have_a_template(tmp_path):
    config = ModelConfig(
        vocab_size=259, context_length=64, d_model=8, num_layers=1, num_heads=2, d_ff=16
    )
    export_model(TransformerLM(config), TOKENIZER, "huggingface", tmp_path / "plain")
    assert "chat_template" not in (tmp_path / "plain" / "tokenizer_config.json").read_text()
