"""The array of a batch: its size is estimated by the first texts, so these may mislead."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tokenizer.examples import small_tokenizer

# Texts of many ids for their length, and of few.
DENSE, SPARSE = "\x01" * 5_000, "the the " * 625


@pytest.mark.parametrize("num_workers", [1, 2, 5])
@pytest.mark.parametrize(
    ("first", "others"), [(DENSE, SPARSE), (SPARSE, DENSE), ("", DENSE), (SPARSE, "")]
)
def test_an_array_holds_all_ids_however_unlike_the_first_texts_are(first, others, num_workers):
    tokenizer = small_tokenizer()
    texts = [first] * 40 + [others] * 600
    expected = {text: tokenizer.encode(text) for text in (first, others)}
    ids, offsets = tokenizer.encode_batch_array(texts, num_workers=num_workers)
    assert offsets.tolist() == np.cumsum([0, *(len(expected[text]) for text in texts)]).tolist()
    np.testing.assert_array_equal(ids, np.concatenate([expected[text] for text in texts]))


def test_the_memory_of_an_array_is_in_proportion_to_its_ids():
    tokenizer = small_tokenizer()
    for texts in ([DENSE] * 40 + [""] * 60, [DENSE] * 40 + [SPARSE] * 600, [SPARSE] * 600):
        ids, _ = tokenizer.encode_batch_array(texts, num_workers=2)
        assert ids.base.nbytes < 1.3 * ids.nbytes + 1000
