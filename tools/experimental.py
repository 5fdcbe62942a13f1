"""The public names and options that may still change; `docs/stability.md` says what this means.

They work, are tested and are documented, but `tools/interface.txt` does not list them.
"""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = """
text.MissingFieldError text.sources text.Corpus.of_sources text.Corpus.pieces
splitting.SPLITTINGS splitting.check_special_tokens splitting.check_splitting
splitting.pattern_of_superwords splitting.Splitter.has_scanner splitting.Splitter.of
splitting.Splitter.safe_cuts
counting.Sample counting.count_sample
counting.WordCounts.check_made_with counting.WordCounts.check_num_bytes
counting.WordCounts.of_buffers counting.WordCounts.sizes
bpe.Parity bpe.get_trainer
bpe.BPE_Trainer.check_request bpe.BPE_Trainer.count_words bpe.BPE_Trainer.draw
bpe.BPE_Trainer.learn bpe.BPE_Trainer.learn_merges bpe.BPE_Trainer.learn_parity
bpe.BPE_Trainer.rules bpe.BPE_Trainer.splitter
bpe.BPE_Trainer.train_counted bpe.BPE_Trainer.train_parity
bpe.BPE_Trainer.train_parity_counted bpe.BPE_Trainer.train_parity_from_counts
tokenizer.AddedToken.is_plain tokenizer.Dropout tokenizer.MergeStep tokenizer.MergedWord
tokenizer.PostProcessor tokenizer.TextPart tokenizer.TokenizerDefinition
tokenizer.Tokenizer.definition tokenizer.Tokenizer.of tokenizer.Tokenizer.with_definition
tokenizer.WithoutResidue tokenizer.count_steps tokenizer.merge_steps tokenizer.only_steps
tokenizer.parts_of tokenizer.token_origins tokenizer.token_parts tokenizer.visible
tokenizer.visible_parts tokenizer.without_residue
formats.ModelCard
data.datasets.DataFile data.datasets.Dataset data.datasets.data_directory
model.KVCache model.Linear.with_bias model.ModelConfig.embedding_factor
model.ModelConfig.parameters_by_part model.MultiHeadSelfAttention.for_queries
model.MultiHeadSelfAttention.project model.TransformerLM.embed
model.TransformerLM.head_weight model.TransformerLM.hidden_states
model.TransformerLM.logits model.TransformerLM.parameter_roles
model.resize_embeddings model.select_embeddings model.transfer_embeddings
generation.Sampling.draw_rows generation.Sampling.filtered
training.optimizers
"""

NAMES = frozenset(_NAMES.split())
"""Names without `cs336_basics.`. A module or a class stands for everything in it."""

COMMANDS = frozenset({"completion", "experiments", "explain", "playground", "report"})
"""Commands that may change, with all of their options."""

OPTIONS = (
    "encode --dropout",
    "prune --residue",
    "train-bpe --parity",
    "train-bpe --sample",
    "train-bpe --superwords",
    "train-bpe --temperature",
    *(
        f"{command} {option}"
        for command in ("train", "estimate")
        for option in (
            "--optimizer.row-beta",
            "--model.previous-token-heads",
            "--model.bigram-rows",
            "--model.induction-heads",
        )
    ),
)
"""Starts of options that may change."""


def is_experimental(name: str) -> bool:
    """Return whether a public name, such as `cs336_basics.text.sources.Piece`, may change."""
    parts = name.split(".")[1:]
    return any(".".join(parts[: i + 1]) in NAMES for i in range(len(parts)))


def is_experimental_member(cls: type, name: str, public: Mapping[int, str]) -> bool:
    """Return whether a member of a public class may change, as it may if a base class says so.

    Args:
        cls: The class.
        name: Name of the member.
        public: Mapping from the ids of public objects to their names.
    """
    return any(
        is_experimental(f"{public[id(base)]}.{name}")
        for base in cls.__mro__
        if id(base) in public and hasattr(base, name)
    )
