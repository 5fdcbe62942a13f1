"""The comparison with other libraries: every mode returns the same ids."""

import argparse
import hashlib

import numpy as np
import pytest

from benchmarks.peers import encoding
from cs336_basics import Tokenizer, train_bpe


@pytest.mark.parametrize("mode", encoding.MODES)
def test_a_run_encodes_the_text_and_hashes_the_ids(mode, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat" * 20)
    tokenizer = Tokenizer(*train_bpe(path, 270, [encoding.EOT]), [encoding.EOT])
    tokenizer.save(tmp_path / "tokenizer")
    options = argparse.Namespace(tokenizer=tmp_path / "tokenizer")
    found = encoding.run("ours", mode, path, 1, options)
    ids = np.array(tokenizer.encode(path.read_text()), np.uint32)
    assert found["digest"] == hashlib.sha256(ids.tobytes()).hexdigest()
    assert min(found["cold"], found["warm"], found["peak"]) > 0
