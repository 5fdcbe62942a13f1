"""Dropout, which keeps a model from memorizing a text that it reads many times.

Only training uses it, so it is added to a run's model and is not part of `ModelConfig`.
"""

from __future__ import annotations

import functools

from torch import Tensor
from torch.nn import Module
from torch.nn.functional import dropout

from cs336_basics.model import TransformerLM


def add_dropout(model: TransformerLM, fraction: float) -> None:
    """Make a model drop a fraction of the features that it adds to its residual stream.

    In training mode, each feature of the embeddings and of a sublayer's output is set to zero with
    probability `fraction`. The others are divided by `1 - fraction`, which preserves their mean
    (Vaswani et al. 2017, section 5.4). The weights and the state dict do not change. `Trainer.fit`
    seeds torch before each step, so a resumed run drops the same features.
    """
    drop = functools.partial(_drop_output, fraction)
    model.token_embeddings.register_forward_hook(drop)
    for layer in model.layers:
        layer.get_submodule("attn").register_forward_hook(drop)
        layer.get_submodule("ffn").register_forward_hook(drop)


def _drop_output(fraction: float, module: Module, _inputs: tuple[Tensor], output: Tensor) -> Tensor:
    return dropout(output, fraction, module.training)
