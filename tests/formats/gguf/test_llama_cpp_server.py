"""A GGUF export has the same ids, probabilities, greedy tokens and chats in llama.cpp's server.

The package xllamacpp contains a compiled llama.cpp with its server: `pip install xllamacpp`.
"""

from __future__ import annotations

import pytest
import torch

from cs336_basics._support.text import ASSISTANT, USER
from cs336_basics.formats import export_model
from cs336_basics.formats.model_card import ModelCard
from cs336_basics.generation.conversation import Conversation
from tests.formats.exported import CHATS, exportable, random_texts, trained
from tests.formats.models import CONFIGURATIONS, for_gguf, random_model
from tests.tokenizer.examples import END, byte_tokenizer

pytestmark = pytest.mark.slow
xllamacpp = pytest.importorskip("xllamacpp", reason="needs the package xllamacpp")

LLAMA_3 = {"rope_scaling": (8.0, 1.0, 4.0, 32.0), "rope_theta": 500.0}
"""With 96 positions, the low, the middle and the high frequencies of a head all occur."""

SHAPES = {
    **{f"shape {i}": for_gguf(values) for i, (values, _) in enumerate(CONFIGURATIONS)},
    "Llama 3": CONFIGURATIONS[12][0] | LLAMA_3,
    "long heads": CONFIGURATIONS[0][0] | {"head_dim": 32, "num_kv_heads": 1},
}


class Server:
    """A GGUF file in llama.cpp's server, with keys and values in float32."""

    def __init__(self, path, context_length):
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel, params.verbosity = context_length, 1, 0
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.warmup = params.fit_params = False
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        self.server = xllamacpp.Server(params)

    def after(self, prompt, size):
        """Return the number of ids of a prompt (str or ids), and the log-probabilities after it."""
        return self._first(self.server.handle_completions, prompt=prompt, n_predict=1, n_probs=size)

    def after_messages(self, messages, size):
        """Return the number of ids of a chat, and the log-probabilities of its answer."""
        return self._first(
            self.server.handle_chat_completions, messages=messages, max_tokens=1, logprobs=True,
            top_logprobs=size,
        )  # fmt: skip

    def _first(self, handle, **options):
        # The server reports no probabilities of a token that ends the text, or that is not complete
        # UTF-8. They are computed before the bias, which makes it choose the same letter each time.
        options |= {"temperature": 0, "cache_prompt": False, "logit_bias": [["x", 1e6]]}
        found = handle(options)
        (token,) = found["choices"][0]["logprobs"]["content"]
        by_id = {each["id"]: each["logprob"] for each in token["top_logprobs"]}
        return found["usage"]["prompt_tokens"], torch.tensor([by_id[i] for i in sorted(by_id)])


def exported(model, tokenizer, directory, **options):
    path = directory / "model.gguf"
    export_model(model, tokenizer, "gguf", path, **options)
    return Server(path, model.config.context_length)


def log_probabilities(model, ids):
    with torch.inference_mode():
        return torch.log_softmax(model(torch.tensor([ids]))[0, -1], -1)


def assert_same(found, model, ids):
    """Compare what the server returns for a text with the ids and the model."""
    number, probabilities = found
    assert number == len(ids)
    torch.testing.assert_close(probabilities, log_probabilities(model, ids), atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", SHAPES)
def test_probabilities_after_ids_are_close(tmp_path, name):
    values, tokenizer = SHAPES[name], trained("gpt2")
    model = random_model(sum(map(ord, name)), vocab_size=tokenizer.vocab_size, **values)
    theirs = exported(model, tokenizer, tmp_path)
    for length in (1, 2, 17, values["context_length"] - 1):
        ids = torch.randint(tokenizer.vocab_size, (length,)).tolist()
        assert_same(theirs.after(ids, tokenizer.vocab_size), model, ids)


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "llama3", "qwen2"])
def test_probabilities_after_texts_are_close(tmp_path, name):
    """The probabilities of a random model after two texts are equal only if the ids are."""
    tokenizer = exportable(name)
    model = random_model(vocab_size=tokenizer.vocab_size, **SHAPES["Llama 3"])
    theirs = exported(model, tokenizer, tmp_path)
    for text in [*CHATS, *random_texts(3, 300)]:
        ids = tokenizer.encode(text)
        if 0 < len(ids) < 96:
            assert_same(theirs.after(text, tokenizer.vocab_size), model, ids)


def test_a_chat_is_the_text_of_the_conversation(tmp_path):
    tokenizer = byte_tokenizer(END, USER, ASSISTANT, merges=[(b"h", b"i"), (b" ", b"x")])
    model = random_model(vocab_size=tokenizer.vocab_size, **SHAPES["Llama 3"])
    theirs = exported(model, tokenizer, tmp_path, card=ModelCard(chats=True))
    conversation = Conversation(tokenizer, 96, 4)
    messages = []
    for prompt, answer in (("hi", "hi x"), (" x\n", "é"), ("猫?", "")):
        messages.append({"role": "user", "content": prompt})
        ids = tokenizer.encode(conversation.text_for(prompt))
        assert_same(theirs.after_messages(messages, tokenizer.vocab_size), model, ids)
        assert "".join(conversation.recorded(prompt, iter([answer]))) == answer
        messages.append({"role": "assistant", "content": answer})
