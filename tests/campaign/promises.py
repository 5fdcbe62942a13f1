"""Which rows and tests prove which sentence of docs/guarantees.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"


class Promise(NamedTuple):
    """A sentence of docs/guarantees.md, and its section."""

    section: str
    sentence: str


def promises() -> list[Promise]:
    """Return all sentences of docs/guarantees.md."""
    found = []
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        for paragraph in re.split(r"\n\n|^- ", body, flags=re.MULTILINE):
            # A heading in bold type belongs to the sentence that follows.
            sentences = re.split(r"(?<=\.) +|(?<=\.\)) +", " ".join(paragraph.split()))
            found += [Promise(title.strip(), sentence) for sentence in sentences if sentence]
    return found


_FILES = "tests/_support/test_files.py::"
_CLI = "tests/commands/test_cli.py::"

# Maps the beginning of a sentence, without marks, to the names of rows and to tests. An empty tuple
# means that the sentence promises nothing.
PROOFS: dict[str, tuple[str, ...]] = {
    "One split pattern": (
        "tests/data/test_train_tokenizer.py::"
        "test_the_directory_contains_the_tokenizer_and_a_record_of_its_inputs",
        "corruption",
    ),
    "Files are read as bytes": ("division-of-work",),
    "Invalid UTF-8 is read as": (
        "division-of-work",
        "tests/text/test_utf8.py",
        "tests/commands/test_encode.py::test_strict_rejects_invalid_utf_8",
    ),
    "encode --errors bytes preserves": ("tests/tokenizer/encoders/test_exact_bytes.py",),
    "The division of the work": ("division-of-work", "encoding", "trainers", "ray"),
    "Pairs are merged one at a time": ("encoding",),
    "Imported merges in any order": (
        "encoding",
        "other-libraries",
        "published-tokenizers",
        "tokenizer-json",
    ),
    "Special tokens: the token": (
        "encoding",
        "tests/splitting/test_token_finder.py::test_tokens_are_found_where_brute_force_finds_them",
    ),
    "If several start at": (
        "encoding",
        "tests/tokenizer/test_tokenizer.py::test_the_longest_of_overlapping_special_tokens_wins",
    ),
    "Training refuses a special token": (
        "tests/bpe/test_base.py::test_invalid_requests_are_rejected",
    ),
    "Normalization: a tokenizer": (
        "encoding",
        "tokenizer-json",
        "tests/tokenizer/test_text_parts.py::test_the_parts_together_are_the_encoding",
    ),
    "Text is normalized in the same": (
        "encoding",
        "tests/counting/test_counting.py::test_normalized_text_is_counted",
        "tests/text/test_normalization.py",
    ),
    "A surrogate pair in a str": (
        "tests/tokenizer/test_stages.py::test_a_surrogate_pair_is_its_character",
        "tests/tokenizer/test_text_parts.py::"
        "test_positions_are_those_of_the_given_text_with_surrogate_pairs",
    ),
    "A surrogate alone is": (
        "tests/tokenizer/test_stages.py::test_a_lone_surrogate_is_replaced_if_that_is_asked_for",
        "tests/tokenizer/test_text_input.py::"
        "test_the_error_names_a_lone_surrogate_and_its_position",
    ),
    "Counts are 64-bit integers": ("large-numbers",),
    "Files are written atomically": ("kill", "limits", "tests/test_artifacts.py"),
    "Each result is one file": ("kill", "limits", "tests/test_artifacts.py"),
    "A killed process leaves": ("kill", "killed-commands", "ray", "tests/test_artifacts.py"),
    "The next process that writes": (
        "kill",
        f"{_FILES}test_leftovers_of_killed_writers_are_removed",
    ),
    "A replaced file keeps": (f"{_FILES}test_a_replaced_file_keeps_its_permissions",),
    "A symbolic link stays": (f"{_FILES}test_the_target_of_a_link_is_replaced",),
    "Missing directories are created": (f"{_FILES}test_a_file_appears_when_it_is_complete",),
    "Devices and FIFOs": (f"{_FILES}test_a_fifo_and_a_link_to_one_are_rejected",),
    "Damage is detected": ("corruption",),
    "Truncated files are refused": ("corruption",),
    "Other formats have no checksum": ("corruption",),
    "To notice such a change": (
        "corruption",
        "tests/tokenizer/test_tokenizer.py::test_the_hash_depends_only_on_what_determines_the_ids",
        "tests/tokenizer/test_stages.py::test_every_part_is_compared_and_hashed",
    ),
    "Resuming is exact": ("killed-commands", "signals", "slow-tests"),
    "Data never contains code": (
        "tests/formats/gpt2/test_pair.py::test_a_pickle_is_refused",
        "tests/formats/huggingface/test_huggingface_models.py::"
        "test_a_pickle_is_refused_and_not_opened",
    ),
    "torch.load is called only": (
        "tests/checkpoints/test_torch_file.py::test_code_in_a_file_is_not_run",
    ),
    "A run directory from elsewhere": (
        "tests/checkpoints/test_run_dir.py::"
        "test_a_run_with_a_link_is_refused_before_anything_is_written",
    ),
    "Directories that several people": (
        "tests/counting/test_partial_counts.py::test_links_to_partial_counts_are_refused",
        "tests/tokenizer/files/test_ray_encoding.py::"
        "test_links_in_the_unfinished_folder_are_refused",
    ),
    "Names and messages from files": (
        "damaged-files",
        f"{_CLI}test_control_characters_in_messages_are_visible",
        "tests/tokenizer/test_description.py::"
        "test_text_from_files_is_short_and_cannot_control_a_terminal",
    ),
    "In model cards, reports": (
        "tests/formats/test_model_card.py::"
        "test_names_and_hashes_have_no_effect_in_markdown_and_html",
        "tests/reports/test_page.py",
        "page",
        "browser",
    ),
    "Content, such as decoded": (f"{_CLI}test_text_from_a_file_is_printed_as_it_is",),
    "Damaged and hostile files": (
        "damaged-files",
        "corruption",
        "memory",
        "time-of-hostile-texts",
        "instructions-of-long-words",
    ),
    "Rows and pre-tokens of more": (
        "memory",
        "tests/counting/test_counting.py::"
        "test_text_without_a_safe_cut_is_rejected_beyond_the_limit",
        "tests/tokenizer/files/test_encode_files.py::"
        "test_a_long_text_without_a_safe_cut_is_rejected",
    ),
    "(Rows of Parquet and Arrow": ("tests/text/sources/test_tables.py",),
    "--max-piece-bytes sets": ("tests/text/sources/test_tables.py",),
    "Hash tables have a secret seed": ("sanitizers", "time-of-hostile-texts"),
    "No result depends on the seed": (
        "tests/native/test_hashing.py::test_no_result_depends_on_the_seed",
    ),
    "SECURITY.md": (),
    "The installed regex module": (
        "scalar-values",
        "named-patterns",
        "random-patterns",
        "tests/data/test_train_tokenizer.py::"
        "test_the_directory_contains_the_tokenizer_and_a_record_of_its_inputs",
    ),
    "tiktoken and tokenizers follow": ("other-libraries-unicode",),
    "All other text is split": ("other-libraries", "other-libraries-unicode"),
}


def key_of(promise: Promise) -> str | None:
    """Return the key of a promise in PROOFS, or None if it has none."""
    plain = re.sub(r"[*`\[\]]", "", promise.sentence)
    return next((key for key in PROOFS if plain.startswith(key)), None)


def proving_tests() -> list[str]:
    """Return the tests in PROOFS, each once."""
    proofs = [proof for proofs in PROOFS.values() for proof in proofs]
    return list(dict.fromkeys(proof for proof in proofs if proof.startswith("tests/")))
