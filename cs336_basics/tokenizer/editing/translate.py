"""translate_token_file: convert a token file to another vocabulary without re-encoding the text.

Use it after pruning or extending a vocabulary, or training it further.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import np, npt
from cs336_basics._support.messages import short_repr
from cs336_basics._support.ragged import items_at, offsets_of
from cs336_basics.text.reading_record import ReadingRecord
from cs336_basics.tokenizer.editing.token_counts import checked_ids
from cs336_basics.tokenizer.encoders.absent_bytes import AbsentByteError
from cs336_basics.tokenizer.encoders.python_encoder import RankMerger
from cs336_basics.tokenizer.files.encode_files import check_destination
from cs336_basics.tokenizer.files.token_files import open_token_file
from cs336_basics.tokenizer.files.token_writer import EncodedBlock, open_token_writer
from cs336_basics.tokenizer.id_gaps import check_gaps
from cs336_basics.tokenizer.ids import TokenArray, token_dtype
from cs336_basics.tokenizer.tokenizer import Tokenizer, check_is_tokenizer

IDS_AT_A_TIME = 1 << 18


def translate_token_file(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    old: Tokenizer,
    new: Tokenizer,
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Convert a token file to the ids of another vocabulary, in constant memory and atomically.

    A token that is not in the new vocabulary is replaced with the tokens that the new merges
    produce from its bytes. The new file decodes to the same text. The ids may differ from the ids
    that `new.encode` would return, because tokens are translated separately: parts of different
    tokens are not merged, and merges that only `new` has are not applied. Document starts are
    adjusted to the new positions.

    Args:
        source: FILE.npy, encoded with `old`.
        destination: FILE.npy to write. It may be `source` if `overwrite` is true.
        old, new: Tokenizers. Both must have the special tokens that occur in the text.
        overwrite: Whether to replace an existing file.

    Returns:
        Metadata of the file; see `encode_file`.

    Raises:
        TypeError: If `old` or `new` is not a Tokenizer.
        FileNotFoundError: If the source does not exist.
        FileExistsError: If the destination exists and `overwrite` is false.
        ValueError: If the source is malformed or was encoded with a tokenizer other than `old`; if
            a byte or special token in the file is missing from `new`; if the highest id in `old` is
            far above its number of tokens; or if the destination does not end in .npy.
        OSError: If the destination cannot be written, for example because the disk is full.

    Example:
        >>> from cs336_basics import Tokenizer
        >>> from cs336_basics.tokenizer import encode_file, prune, translate_token_file
        >>> tokenizer = Tokenizer.from_directory("tokenizers/stories")
        >>> metadata = encode_file(tokenizer, "stories.txt", "old.npy")
        >>> smaller, id_map = prune(tokenizer, 270, "stories.txt")
        >>> translated = translate_token_file("old.npy", "new.npy", tokenizer, smaller)
        >>> translated["vocab_size"]
        270
    """
    check_is_tokenizer(old, "old")
    check_is_tokenizer(new, "new")
    source, destination = Path(source), Path(destination)
    file = open_token_file(source, tokenizer_hash=old.hash())
    starts = file.document_starts() if file.has_document_starts else None
    check_destination(destination, (), overwrite)
    translation = Translation(old, new, source)
    with open_token_writer(
        destination, new, document_starts=starts is not None, end_id=None
    ) as writer:
        for first in range(0, len(file.tokens), IDS_AT_A_TIME):
            some = file.tokens[first : first + IDS_AT_A_TIME]
            begins = np.zeros(0, np.int64)
            if starts is not None:
                within = np.searchsorted(starts, [first, first + len(some)])
                begins = starts[within[0] : within[1]] - first
            writer.write(translation.block(some, begins))
        return writer.finish(file.metadata)


class Translation:
    """Mapping from each id of one vocabulary to ids of another, stored in flat arrays.

    Args:
        old, new: Tokenizers.
        source: Path of the token file, for error messages.
    """

    def __init__(self, old: Tokenizer, new: Tokenizer, source: Path) -> None:
        check_gaps(old.vocab)
        self._source = source
        self._old = old
        merger = RankMerger(new.definition)
        new_ids = new.definition.token_ids
        old_added = {token_id: content for content, token_id in old.definition.added_ids.items()}
        new_added = new.definition.added_ids
        flat: list[int] = []
        lengths = np.zeros(old.vocab_size, np.int64)
        for token_id, token in sorted(old.vocab.items()):
            ids: list[int] = []
            if old_added.get(token_id) in new_added:
                ids = [new_added[old_added[token_id]]]
            elif token in new_ids:
                ids = [new_ids[token]]
            elif token_id not in old_added:
                with contextlib.suppress(AbsentByteError):
                    ids = merger.encode(token)
            flat.extend(ids)
            lengths[token_id] = len(ids)
        self._lengths = lengths
        self._offsets = offsets_of(lengths)
        self._flat: TokenArray = np.array(flat, token_dtype(new.vocab_size))

    def block(self, ids: TokenArray, begins: npt.NDArray[np.int64]) -> EncodedBlock:
        """Return the new ids as a block.

        Args:
            ids: Old ids, shape (n,), n > 0.
            begins: Positions in `ids` where documents start, in ascending order.
        """
        ids = checked_ids(ids, self._old.vocab_size, self._source)
        lengths = self._lengths[ids]
        if not lengths.all():
            self._refuse(int(ids[np.argmin(lengths)]))
        firsts = offsets_of(lengths)  # position of each old token's first new id in the block
        return EncodedBlock(
            items_at(self._flat, self._offsets[ids], lengths),
            starts_document=len(begins) > 0 and begins[0] == 0,
            document_ends=firsts[begins[begins > 0]],
            reading=ReadingRecord(),
        )

    def _refuse(self, token_id: int) -> None:
        if token_id not in self._old.vocab:
            raise InputError(
                f"damaged file; its tokenizer has no token for id {token_id}",
                place=str(self._source),
                remedy="encode the text again",
            )
        raise InputError(
            f"token {short_repr(self._old.vocab[token_id])} cannot be translated, "
            "because it is a special token or has a byte that is not in the new vocabulary",
            place=str(self._source),
            remedy="add the token or byte to the new vocabulary",
        )
