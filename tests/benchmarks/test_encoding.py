"""The comparison with other libraries: a run returns the ids of the library."""

import argparse
import hashlib

import numpy as np

from benchmarks.peers import encoding
from cs336_basics import Tokenizer, train_bpe


def test_a_run_encodes_the_text_and_hashes_the_ids(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat" * 20)
    tokenizer = Tokenizer(*train_bpe(path, 270, [encoding.EOT]), [encoding.EOT])
    tokenizer.save(tmp_path / "tokenizer")
    options = argparse.Namespace(tokenizer=tmp_path / "tokenizer")
    found = encoding.run("ours", path, 1, options)
    ids = np.array(tokenizer.encode(path.read_text()), np.uint32)
    assert found["digest"] == hashlib.sha256(ids.tobytes()).hexdigest()
    assert min(found["cold"], found["warm"], found["peak"]) > 0
