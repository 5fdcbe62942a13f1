"""Loss, perplexity and bits per byte of texts equal loops of plain torch."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch

from cs336_basics._support.text import ASSISTANT, USER, turn
from cs336_basics.data.sources import Text, TokenFiles
from cs336_basics.model import ModelConfig, TransformerLM
from cs336_basics.text.corpus import Corpus
from cs336_basics.tokenizer import Tokenizer, encode_file
from cs336_basics.tokenizer.post_processor import PostProcessor
from cs336_basics.training import LoadedRun
from cs336_basics.training import text_evaluation as module
from cs336_basics.training.data import AnswerRule
from cs336_basics.training.text_evaluation import (
    DocumentMarks,
    Reading,
    encode_text,
    evaluate,
    score_sequences,
    total_score,
    windows_of,
)
from tests.errors import rejects
from tests.numerics import make_tables_exact
from tests.tokenizer.examples import END, byte_tokenizer

CONTEXT = 12
TOKENIZER = byte_tokenizer(END, merges=[(b"t", b"h"), (b"th", b"e")])
END_ID = TOKENIZER.special_token_id(END)
# An empty document, one shorter and one much longer than the context, and more than ASCII.
DOCUMENTS = ["the cat", "a", "the theory of the thermos " * 4, "", "\u20ac 5, na\u00efve\n"]


def run_of(tokenizer=TOKENIZER, vocab_size=None):
    torch.manual_seed(3)
    size = vocab_size or tokenizer.vocab_size
    config = ModelConfig(
        vocab_size=size, context_length=CONTEXT, d_model=8, num_layers=1, num_heads=2, d_ff=16
    )
    model = TransformerLM(config)
    for parameter in model.parameters():  # far from uniform predictions
        torch.nn.init.normal_(parameter, std=0.5)
    return LoadedRun(model, tokenizer)


def losses_by_plain_torch(model, ids, context, stride):
    """Return the loss of each id but the first. Only the new predictions of a window count."""
    losses = []
    for start in range(0, len(ids), stride):
        window = torch.tensor(ids[start : start + context + 1])
        with torch.no_grad():
            logits = model(window[:-1])
        found = torch.nn.functional.cross_entropy(logits, window[1:], reduction="none")
        losses += found.tolist()[len(losses) - start :]
        if start + context + 1 >= len(ids):
            return losses
    raise AssertionError("no ids")


def expected_score(run, ids, context=CONTEXT, stride=None):
    """Return the sums of a Score from the losses by plain torch."""
    losses = losses_by_plain_torch(run.model, ids, context, stride or context)
    special = set(map(run.tokenizer.special_token_id, run.tokenizer.special_tokens))
    text = [(loss, i) for loss, i in zip(losses, ids[1:], strict=True) if i not in special]
    num_bytes = sum(len(run.tokenizer.vocab[i]) for _, i in text)
    return math.fsum(losses), len(losses), math.fsum(loss for loss, _ in text), num_bytes


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("chunk", [1, 2, 7, 100])
def test_every_id_but_the_first_is_predicted_once_with_the_longest_context(length, chunk):
    for stride, size in itertools.product(range(1, length + 1), range(20)):
        ids = np.arange(100, 100 + size)
        chunks = [ids[start : start + chunk] for start in range(0, size, chunk)]
        windows = list(windows_of(7, chunks, Reading(length, stride)))
        predicted = []
        for number, (sequence, window, num_seen, _) in enumerate(windows):
            assert sequence == 7
            assert list(window) == list(ids[number * stride :][: length + 1])
            assert number == 0 or num_seen > length - stride  # the shortest context
            predicted += list(window[num_seen:])
        assert predicted == list(ids[1:])


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("context", "stride"), [(12, 12), (12, 5), (7, 7), (7, 1), (1, 1)])
def test_texts_have_the_losses_of_plain_torch(context, stride):
    run = run_of(vocab_size=TOKENIZER.vocab_size + 3)
    found = evaluate(run, DOCUMENTS, context_length=context, stride=stride)
    for text, score in zip(DOCUMENTS, found.texts, strict=True):
        ids = [END_ID, *TOKENIZER.encode(text)]
        if len(ids) == 1:
            assert score == (0, 0, 0, 0)
            continue
        assert score == pytest.approx(expected_score(run, ids, context, stride))
        assert score.num_bytes == len(text.encode())
    total = [sum(values) for values in zip(*found.texts, strict=True)]
    assert found.total == pytest.approx(total)
    assert found.loss == pytest.approx(total[0] / total[1])
    assert found.perplexity == pytest.approx(math.exp(found.loss))
    assert found.bits_per_byte == pytest.approx(total[2] / math.log(2) / total[3])


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
def test_small_batches_and_chunks_of_logits_give_the_same_scores(monkeypatch):
    run = run_of()
    expected = evaluate(run, DOCUMENTS).texts
    monkeypatch.setattr(module, "_BATCH_TOKENS", 20)
    monkeypatch.setattr(module, "_WINDOWS_SORTED", 3)
    monkeypatch.setattr(module, "_MOST_LOGITS", 700)  # rows of about 260 logits
    for score, other in zip(evaluate(run, DOCUMENTS).texts, expected, strict=True):
        assert score == pytest.approx(other)


def test_one_text_is_not_taken_for_a_list_of_characters():
    run = run_of()
    assert evaluate(run, "the cat") == evaluate(run, ["the cat"])


def test_a_model_is_left_in_its_mode():
    run = run_of()
    for training in (True, False):
        run.model.train(training)
        evaluate(run, "the cat")
        assert run.model.training is training


def test_a_special_token_in_a_text_is_predicted_but_has_no_bytes():
    score = evaluate(run_of(), f"the{END}cat").total
    assert (score.tokens, score.num_bytes) == (5, 6)
    only = evaluate(run_of(), END)
    assert only.total.tokens == 1
    assert only.bits_per_byte is None
    assert math.isnan(evaluate(run_of(), "").loss)


def test_wrong_arguments_are_named():
    run = run_of()
    with rejects("run", "LoadedRun", kind=TypeError):
        evaluate(run.model, "text")
    with rejects("texts"):
        evaluate(run, [])
    with pytest.raises(TypeError, match="bytes"):
        evaluate(run, [b"text"])
    for options in ({"context_length": 13}, {"context_length": 0}, {"stride": 13}, {"stride": 0}):
        with rejects(*options):
            evaluate(run, "text", **options)
    with rejects("stride", "5"):
        evaluate(run, "text", context_length=5, stride=6)


# ----------------------------------------------------------------------------- corpora


def scores_of(run, source, tmp_path, per_document=False, **options):
    text = encode_text(run.tokenizer, source, tmp_path / "encoded.npy")
    (tmp_path / "encoded.npy").unlink(missing_ok=True)
    return score_sequences(run, text.sequences(per_document), Reading.of(run, **options))


def write_rows(path, documents=DOCUMENTS):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    return Text.of(Corpus(path, field="text"))


def joined(documents):
    return [i for text in documents if text for i in [*TOKENIZER.encode(text), END_ID]]


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("stride", [12, 5])
def test_a_corpus_is_one_sequence_as_in_training(tmp_path, stride, monkeypatch):
    run = run_of()
    monkeypatch.setattr(module, "_CHUNK", 11)
    rows = write_rows(tmp_path / "rows.jsonl")
    (tmp_path / "plain.txt").write_text(f"the cat{END}a{END}the", encoding="utf-8")
    plain = Text.of(Corpus(tmp_path / "plain.txt"))
    (tmp_path / "a.txt").write_text("the cat", encoding="utf-8")
    several = Text.of(Corpus([tmp_path / "a.txt", tmp_path / "plain.txt"]))
    for source, ids in (
        (rows, joined(DOCUMENTS)),
        (plain, joined(["the cat", "a", "the"])[:-1]),
        (several, joined(["the cat", "the cat", "a", "the"])),
    ):
        (score,) = scores_of(run, source, tmp_path, stride=stride)
        assert score == pytest.approx(expected_score(run, ids, stride=stride))


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
def test_documents_on_their_own_have_the_scores_of_texts(tmp_path, monkeypatch):
    run = run_of()
    monkeypatch.setattr(module, "_CHUNK", 5)
    expected = [score for score in evaluate(run, DOCUMENTS).texts if score.tokens]
    (tmp_path / "plain.txt").write_bytes(END.join([*DOCUMENTS, ""]).encode())
    for source in (write_rows(tmp_path / "rows.jsonl"), Text.of(Corpus(tmp_path / "plain.txt"))):
        found = scores_of(run, source, tmp_path, per_document=True)
        assert len(found) == len(expected)
        for score, other in zip(found, expected, strict=True):
            assert score == pytest.approx(other)
    assert total_score(found).num_bytes == len("".join(DOCUMENTS).encode())


def test_token_files_are_read_like_their_text(tmp_path):
    run = run_of()
    rows = write_rows(tmp_path / "rows.jsonl")
    encode_file(TOKENIZER, rows.corpus, tmp_path / "rows.npy", end_of_document=END)
    source = TokenFiles((str(tmp_path / "rows.npy"),))
    for per_document in (False, True):
        found, expected = (
            scores_of(run, given, tmp_path, per_document) for given in (source, rows)
        )
        assert found == expected
    other = run_of(byte_tokenizer(END))
    with rejects(None, "another tokenizer", place="rows.npy"):
        scores_of(other, source, tmp_path)


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
def test_a_tokenizer_with_another_separator_reads_end_of_text_as_its_own(tmp_path):
    start = "<s>"
    plain = byte_tokenizer(start)
    start_id = plain.special_token_id(start)
    definition = plain.definition.replaced(
        post_processor=PostProcessor((start_id, "A"), (start_id, "A", "B"))
    )
    tokenizer = Tokenizer.of(definition)
    assert DocumentMarks.of(tokenizer) == ([start_id], start_id)
    run = run_of(tokenizer)
    (tmp_path / "plain.txt").write_text(f"the cat{END}a", encoding="utf-8")
    source = Text.of(Corpus(tmp_path / "plain.txt"))
    ids = [start_id, *b"the cat", start_id, *b"a"]
    assert scores_of(run, source, tmp_path) == [pytest.approx(expected_score(run, ids))]
    documents = [expected_score(run, [start_id, *text]) for text in (b"the cat", b"a")]
    found = scores_of(run, source, tmp_path, per_document=True)
    assert found == [pytest.approx(document) for document in documents]
    assert list(evaluate(run, ["the cat", "a"]).texts) == found


TURNS_TOKENIZER = byte_tokenizer(END, USER, ASSISTANT)
ANSWERS = AnswerRule.of(TURNS_TOKENIZER)


@pytest.mark.numerical(seeds=False)
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("context", "stride"), [(12, 12), (12, 5), (7, 3), (1, 1)])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("counts_answers", [False, True])
def test_answers_and_documents_are_as_in_training(context, stride, packed, counts_answers):
    run = run_of(TURNS_TOKENIZER)
    make_tables_exact(run.model.layers[0].attn.rope, run.model.config.rope_theta)
    texts = [turn("Who?" * i, "The cat. " * (i % 3)) + END for i in range(4)]
    ids = np.array(TURNS_TOKENIZER.encode("".join(texts)))
    is_answer, losses = [False], []  # of each id, and of the ids that count
    for i in ids[:-1]:
        is_special = i in (ANSWERS.begin, ANSWERS.end, ANSWERS.prompt)
        is_answer.append(i == ANSWERS.begin if is_special else is_answer[-1])
    seen = 1
    for start in range(0, len(ids), stride):
        window = ids[start : start + context + 1]
        for place in range(seen - start, len(window)):
            first = 0
            if packed:  # the document of the id before
                prompts = np.flatnonzero(window[:place] == ANSWERS.prompt)
                first = int(prompts[-1]) if len(prompts) else 0
            logits = run.model(torch.tensor(window[first:place]))[-1].log_softmax(-1)
            if is_answer[start + place] or not counts_answers:
                losses.append(-float(logits[window[place]].detach()))
        seen = max(seen, start + len(window))
        if seen == len(ids):
            break
    reading = Reading.of(
        run,
        context,
        stride,
        document_start=ANSWERS.prompt if packed else None,
        answers=ANSWERS if counts_answers else None,
    )
    for size in (1, 9, 1000):
        chunks = [ids[i : i + size] for i in range(0, len(ids), size)]
        (score,) = score_sequences(run, [chunks], reading)
        assert (score.nats, score.tokens) == pytest.approx((math.fsum(losses), len(losses)))


def test_a_tokenizer_without_special_tokens_reads_one_document(tmp_path):
    run = run_of(byte_tokenizer())
    (tmp_path / "one.txt").write_text("the cat", encoding="utf-8")
    one = Text.of(Corpus(tmp_path / "one.txt"))
    for per_document in (False, True):
        (score,) = scores_of(run, one, tmp_path, per_document)
        assert score.tokens == score.num_bytes == len("the cat") - 1  # nothing predicts the first
    assert evaluate(run, "the cat").total == score
    with rejects(None, "no special token to separate documents", place="rows.jsonl"):
        scores_of(run, write_rows(tmp_path / "rows.jsonl"), tmp_path)
