"""The shapes of the measured models, and a transformers Llama with our model's weights."""

import dataclasses

from cs336_basics.formats.huggingface.llama import llama_config, llama_state
from cs336_basics.model import ModelConfig

GPT2 = ModelConfig(
    vocab_size=50_257, context_length=1024, d_model=768, num_layers=12, num_heads=12, d_ff=2048
)
SHAPES = {
    "tinystories": ModelConfig(),
    "gpt2": GPT2,  # GPT-2 small's layers, with an untied output head
    "124m": dataclasses.replace(GPT2, tied_embeddings=True),  # the size of GPT-2 small
    "tiny": ModelConfig(
        vocab_size=500, context_length=32, d_model=32, num_layers=2, num_heads=2, d_ff=64
    ),
}
PEER_SHAPES = ["tinystories", "gpt2", "tiny"]  # Llama does not scale tied embeddings


def llama_of(model):
    """Return a LlamaForCausalLM with the weights of a TransformerLM, on the CPU."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**llama_config(model.config), attn_implementation="sdpa")
    llama = LlamaForCausalLM(config)
    llama.load_state_dict(llama_state(model.config, model.state_dict()))
    return llama
