"""Rows about processes: threads, the playground's server, leaks, and mixed work for hours."""

from __future__ import annotations

import concurrent.futures
import functools
import json
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.campaign.row import Case, all_rows, row


@row("texts")
def threads(case: Case) -> int:
    """Threads and forked processes that share a tokenizer get the ids of their texts."""
    from cs336_basics.tokenizer.encoders.backends import BACKENDS
    from tests.tokenizer.examples import FRAGMENTS, reference_ids, small_tokenizer

    chooser = case.chooser
    tokenizer = small_tokenizer(
        backend=chooser.choice([name for name in BACKENDS if name != "reference"]),
        cache_size=chooser.choice([0, 10, 2000]),
    )
    texts = ["".join(chooser.choices(FRAGMENTS, k=chooser.randrange(60))) for _ in range(40)]
    expected = [reference_ids(tokenizer, text) for text in texts]

    def work(text: str) -> tuple[list[int], list[int], str]:
        ids = tokenizer.encode(text)
        return ids, tokenizer.encode_batch([text, text], num_workers=2)[1], tokenizer.decode(ids)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, texts))
    assert found == [(ids, ids, text) for ids, text in zip(expected, texts, strict=True)]
    if hasattr(os, "fork") and chooser.random() < 0.2:
        child = os.fork()
        if child == 0:
            equal = [tokenizer.encode(text) for text in texts] == expected
            os._exit(0 if equal else 1)
        assert os.waitpid(child, 0)[1] == 0
        case.notes["forks"] += 1
    return len(texts)


@functools.cache
def _client() -> Any:
    pytest.importorskip("starlette", reason="needs the playground extra")
    pytest.importorskip("uvicorn", reason="needs the playground extra")
    from cs336_basics.playground.answers import make_answers
    from tests.playground import test_server

    return test_server.client_of(make_answers())


JUNK = [None, True, -1, 0, 2**70, 1.5, "", "a b", "\x00<script>", "é\u202e" * 50, [], {}, [[]]]


@row("requests")
def page(case: Case) -> int:
    """Hostile requests to the playground are answered with JSON or refused; it keeps its memory."""
    client = _client()
    from tests.playground.test_server import BASE, TOKEN
    from tests.texts import TEXTS

    chooser = case.chooser
    names = ["start", "tokens", "merges", "watch", "parts", "curves", "next_tokens", "losses"]
    keys = ["text", "tokenizer", "word", "run", "checkpoint", "vocab_size", "path", "stage", "\x00"]
    before = _resident()
    for _ in range(50):
        asked = {key: chooser.choice(JUNK) for key in chooser.sample(keys, chooser.randrange(3))}
        if chooser.random() < 0.5:  # may be valid
            asked = {"text": chooser.choice(list(TEXTS.values()))[:300], "tokenizer": 0} | asked
        body = json.dumps(asked).encode()
        if chooser.random() < 0.3:
            at = chooser.randrange(len(body) + 1)
            body = body[:at] + chooser.randbytes(chooser.randrange(4)) + body[at + 1 :]
        headers = {"Content-Type": chooser.choice(["application/json"] * 4 + ["text/plain"])}
        if is_foreign := chooser.random() < 0.3:
            which = chooser.choice(["Host", "Origin"])
            headers[which] = chooser.choice(["evil.example", "null", "127.0.0.1:1", "[::1]:8336"])
        path = f"/{TOKEN}/api/{chooser.choice(names)}"
        if chooser.random() < 0.1:
            path = "/" + "".join(chooser.choices(["..", "/", "%2e", "%00", TOKEN, "api"], k=5))
        response = client.post(f"{BASE}{path}", content=body, headers=headers)
        told = (path, headers, body, response.status_code)
        assert response.status_code in (200, 400, 403, 404, 405, 413, 415), told
        assert response.status_code == 403 or not is_foreign, told
        assert response.headers["content-type"] == "application/json", told
        assert response.status_code == 200 or "error" in response.json(), told
        case.notes[f"answers with status {response.status_code}"] += 1
    # The first requests fill caches and import modules.
    case.notes["MB of growth in all cases"] += max(0, _resident() - before) // 1_000_000
    return 50


def _resident() -> int:
    """Return the resident memory of this process in bytes, or 0 if the system does not tell it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


ROUNDS = 300


@row("rounds", in_normal_run=False, share=2)
def leaks(case: Case) -> int:
    """Memory does not grow with rounds of training, encoding, decoding, saving and loading."""
    from cs336_basics import TRAINERS, Tokenizer
    from tests.bpe.trainers import train
    from tests.tokenizer.examples import TRAINING_TEXT

    if not _resident():
        pytest.skip("needs /proc/self/statm")
    trainer = case.chooser.choice([name for name, t in TRAINERS.items() if t.is_built])
    counts = {word.encode(): 3 for word in TRAINING_TEXT.split()}

    def one_round(number: int) -> None:
        vocab, merges = train(trainer, counts, 40)
        tokenizer = Tokenizer(vocab, merges, ["<|x|>"])
        ids = tokenizer.encode(f"{TRAINING_TEXT} {number}")
        assert tokenizer.decode(ids) == f"{TRAINING_TEXT} {number}"
        tokenizer.encode_array(TRAINING_TEXT)
        tokenizer.encode_batch([TRAINING_TEXT] * 3, num_workers=2)
        assert pickle.loads(pickle.dumps(tokenizer)).encode("a") == tokenizer.encode("a")
        with tempfile.TemporaryDirectory(dir=case.folder) as folder:
            tokenizer.save(folder)
            assert Tokenizer.from_pretrained(folder).hash() == tokenizer.hash()

    for number in range(ROUNDS // 3):
        one_round(number)
    before = _resident()
    for number in range(ROUNDS):
        one_round(number)
    after = _resident()
    assert after < before * 1.05, f"{before:,} bytes, then {after:,} with the trainer {trainer}"
    return ROUNDS


MIXED = ["named-patterns", "encoding", "other-libraries", "tokenizer-json", "trainers", "threads",
         "division-of-work", "large-numbers", "damaged-files", "corruption", "kill", "limits",
         "page"]  # fmt: skip


@row("cases of other rows", in_normal_run=False, share=4)
def soak(case: Case) -> int:
    """One process checks cases of all random rows in a random order, kills among them."""
    name = case.chooser.choice(MIXED)
    all_rows()[name].run(case.chooser.randrange(10**9), case.chooser.randrange(10**9))
    case.notes[f"cases of {name}"] += 1
    return 1
