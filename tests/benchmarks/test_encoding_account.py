"""encoding_account.py: phases of lines, differences of two runs, the same ids as the library."""

import encoding_account
import pytest
from corpora import EOT

from cs336_basics import Tokenizer
from cs336_basics.data.datasets import write_sample
from tests.native.compiler import compiler
from tests.tokenizer.examples import small_tokenizer

SCAN = "void cs336::Scanner::scan<cs336::TypedEncoder<unsigned short>::Worker::encode_ordinary()>"
MERGE = "unsigned short* cs336::ShortWordMerger<unsigned short>::merge_for_avx2<16u>()"

COUNTS = """events: Ir D1mr
fl=/src/native/base/hashing.hpp
fn={scan}
66 {hashing} 0
fl=/src/native/encoding/encoder.hpp
{written} 4 1
fl=/src/native/encoding/short_word_merger.hpp
fn={merge}
130 {merging} 2
summary: 1 2
"""


def counts_of(path, **numbers):
    path.write_text(COUNTS.format(scan=SCAN, merge=MERGE, **numbers))
    return encoding_account.read_counts(path)


def test_what_two_runs_differ_by_is_counted_by_phase(tmp_path):
    functions = encoding_account.functions_of_encoder()
    written = next(line for line, name in functions.items() if name == "writing")
    before = counts_of(tmp_path / "before", hashing=10, written=written, merging=7)
    after = counts_of(tmp_path / "after", hashing=13, written=written, merging=7)
    counted = encoding_account.by_phase(before, after, functions)
    assert list(counted) == encoding_account.ORDER
    assert {phase: events["Ir"] for phase, events in counted.items() if events["Ir"]} == {
        "hash and lookup": 3,
    }  # fmt: skip
    counted = encoding_account.by_phase({}, after, functions)
    assert {phase: events["Ir"] for phase, events in counted.items() if events["Ir"]} == {
        "hash and lookup": 13, "writing ids": 4, "merging": 7,
    }  # fmt: skip
    assert counted["merging"]["D1mr"] == 2


def test_the_functions_of_the_loop_over_words_are_found():
    functions = encoding_account.functions_of_encoder()
    assert set(functions.values()) == {"loop", "writing"}


@pytest.mark.slow  # compiles the encoder
@pytest.mark.parametrize("size", ["narrow", "wide"])
def test_the_program_encodes_as_the_library(tmp_path, size, monkeypatch):
    monkeypatch.setattr(encoding_account, "CACHE", tmp_path)
    monkeypatch.setenv("CXX", compiler()[0])
    tokenizer = small_tokenizer((EOT,))
    if size == "wide":
        vocab = {token_id + (1 << 16): token for token_id, token in tokenizer.vocab.items()}
        tokenizer = Tokenizer(vocab, tokenizer.merges, [EOT])
    text = tmp_path / "text.txt"
    write_sample(text, 100_000)
    encoding_account.write_vocabulary(tokenizer, tmp_path / "vocabulary")
    program = encoding_account.compile_program()
    facts = encoding_account.measure(program, tmp_path / "vocabulary", text, 2)
    assert facts["ids"] == len(tokenizer.encode_array(text.read_bytes()))
    assert 0 < facts["distinct"] < facts["words"] <= facts["ids"]
    times = encoding_account.times_by_phase(facts)
    assert sum(times["cold"].values()) == pytest.approx(facts["utf8"] + facts["cold"])
    assert sum(times["warm"].values()) == pytest.approx(facts["utf8"] + facts["warm"])
