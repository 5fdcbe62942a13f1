"""Recompute the figures in the tables of docs/answers.md and compare them with the page."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import torch

from cs336_basics import ModelConfig, Tokenizer, train_bpe
from cs336_basics._support.text import END_OF_TEXT
from cs336_basics.data.documents import read_documents, sample_documents
from cs336_basics.model.accounting import forward_flops, kept_activations
from cs336_basics.text import Corpus
from cs336_basics.training.config import TrainConfig
from cs336_basics.training.devices import peak_flops
from cs336_basics.training.memory import step_memory
from cs336_basics.training.optimizers import SGD
from tests.tokenizer.examples import data_file

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "answers.md").read_text(encoding="utf-8")

GPT2 = {
    name: ModelConfig(
        vocab_size=50_257,
        context_length=1_024,
        num_layers=layers,
        d_model=width,
        num_heads=heads,
        d_ff=64 * round(width * 8 / 3 / 64),
    )
    for name, layers, width, heads in (
        ("small", 12, 768, 12),
        ("medium", 24, 1_024, 16),
        ("large", 36, 1_280, 20),
        ("XL", 48, 1_600, 25),
    )
}
OF_2025 = {
    name: dataclasses.replace(config, d_ff=4 * config.d_model) for name, config in GPT2.items()
}
XL = GPT2["XL"]
FILES = {
    "TinyStories": ("tinystories_train.txt", 10_000),
    "OpenWebText": ("owt_sample.txt", 32_000),
}


def table(name):
    """Return a table on the page as a dict from the first cell of each row to the other cells."""
    _, found, rest = PAGE.partition(f"<!-- table: {name} -->\n")
    assert found, f"docs/answers.md has no table {name!r}"
    lines = rest.partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows[2:]}


@pytest.fixture(scope="module")
def tokenizers():
    return {
        name: Tokenizer(
            *train_bpe(data_file(file), vocab_size, [END_OF_TEXT]), special_tokens=[END_OF_TEXT]
        )
        for name, (file, vocab_size) in FILES.items()
    }


# ----------------------------------------------------------------------- BPE, tokenizers


def test_the_sizes_of_the_texts_on_the_page_are_right():
    rows = table("training time")
    for name, (file, _) in FILES.items():
        assert rows[name][0] == f"{data_file(file).stat().st_size:,} bytes"


def test_the_longest_tokens_on_the_page_are_right(tokenizers):
    expected = {}
    for name, tokenizer in tokenizers.items():
        tokens = [t for _, t in sorted(tokenizer.vocab.items()) if t != END_OF_TEXT.encode()]
        most = max(map(len, tokens))
        longest = [token for token in tokens if len(token) == most]
        expected[name] = [
            f"{len(tokenizer.vocab):,}",
            f"{len(tokenizer.merges):,}",
            ", ".join(f"`{token.decode().replace(' ', '␣')}`" for token in longest),
            f"{len(longest[0])}",
        ]
    assert table("longest tokens") == expected


def test_the_kinds_of_tokens_on_the_page_are_right(tokenizers):
    tokens = {
        name: {token for token in tokenizer.vocab.values() if token != END_OF_TEXT.encode()}
        for name, tokenizer in tokenizers.items()
    }
    stories, web = tokens.values()

    def count(pattern):
        return [f"{sum(bool(re.search(pattern, t)) for t in own):,}" for own in (stories, web)]

    assert table("vocabularies") == {
        "tokens with an upper-case letter": count(rb"[A-Z]"),
        "tokens with a digit": count(rb"[0-9]"),
        "tokens with a byte outside ASCII": count(rb"[^\x00-\x7f]"),
        "tokens that the other does not have": [
            f"{len(stories - web):,}",
            f"{len(web - stories):,}",
        ],
    }
    assert stories - web >= {b" paintbrushes", b" marshmallows", b" sandcastles"}


def test_the_compression_ratios_on_the_page_are_right(tokenizers, tmp_path):
    web = Corpus(data_file("owt_sample.txt"))
    samples = {
        "TinyStories": sample_documents(Corpus(data_file("tinystories_valid.txt")), 10).spaced,
        "OpenWebText": sample_documents(web, 10).spaced,
    }
    held_out = tmp_path / "rest.txt"
    ten = {text.encode() for text in samples["OpenWebText"]}
    rest = [text for text in read_documents(web) if text not in ten]
    held_out.write_bytes(END_OF_TEXT.encode().join(rest))
    without = Tokenizer(*train_bpe(held_out, 32_000, [END_OF_TEXT]))

    def size(texts):
        return sum(len(text.encode()) for text in texts)

    def ratio(tokenizer, texts):
        return size(texts) / sum(len(tokenizer.encode(text)) for text in texts)

    expected = {
        name: [f"{size(texts):,}", *(f"{ratio(t, texts):.2f}" for t in tokenizers.values())]
        for name, texts in samples.items()
    }
    texts = samples["OpenWebText"]
    expected["OpenWebText, held out"] = [f"{size(texts):,}", "", f"{ratio(without, texts):.2f}"]
    assert table("compression") == expected
    of_stories, of_web = (ratio(tokenizer, texts) for tokenizer in tokenizers.values())
    assert f"{of_web / of_stories - 1:.0%}" == "40%"


# ------------------------------------------------------------------------ accounting


def test_the_parameter_counts_on_the_page_are_right():
    assert table("parameters") == {
        name: [
            f"{config.d_model:,}",
            f"{config.num_layers}",
            f"{config.num_heads}",
            f"{config.d_ff:,}",
            f"{config.num_parameters():,}",
            f"{4 * config.num_parameters() / 1e9:.2f} GB",
            f"{OF_2025[name].d_ff:,}",
            f"{OF_2025[name].num_parameters():,}",
            f"{4 * OF_2025[name].num_parameters() / 1e9:.2f} GB",
        ]
        for name, config in GPT2.items()
    }


def test_the_products_on_the_page_add_up_to_the_forward_flops():
    values = {"T": XL.context_length}
    total = 0
    rows = table("products")
    for name, (shapes, how_often, flops) in rows.items():
        if name == "total":
            continue
        (m, k), (k2, n) = (
            [values.get(size) or int(size) for size in pair.split(", ")]
            for pair in re.findall(r"\((.*?)\)", shapes)
        )
        assert k == k2
        count = 1
        for number in re.findall(r"\d+", how_often):
            count *= int(number)
        exact = count * 2 * m * k * n
        assert flops == f"{exact / 1e12:.3f}", name
        total += exact
    assert total == sum(forward_flops(XL).values())
    assert rows["total"][-1] == f"{total / 1e12:.3f}"


def test_the_shares_of_flops_on_the_page_are_right():
    configs = dict(GPT2)
    growth = []
    for name, config in (("XL", XL), ("XL of 2025", OF_2025["XL"])):
        long = dataclasses.replace(config, context_length=16_384)
        configs |= {name: config, f"{name}, context 16,384": long}
        growth.append(sum(forward_flops(long).values()) / sum(forward_flops(config).values()))
    expected = {}
    for name, config in configs.items():
        parts = forward_flops(config)
        total = sum(parts.values())
        expected[name] = [
            f"{total / 1e12:.3f}",
            *(f"{100 * flops / total:.1f} %" for flops in parts.values()),
        ]
    assert table("flops") == expected
    assert (long.context_length // XL.context_length, *map(round, growth)) == (16, 38, 33)


def test_the_adamw_formulas_on_the_page_are_right():
    # Evaluate the formulas on the page for GPT-2 XL.
    names = {
        "V": XL.vocab_size,
        "d": XL.d_model,
        "L": XL.num_layers,
        "f": XL.d_ff,
        "h": XL.num_heads,
        "T": XL.context_length,
    }
    values = {}
    for name, formula in re.findall(r"^    ([PA]) = (.*)$", PAGE, flags=re.MULTILINE):
        python = formula.replace("²", "**2")
        python = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", python)
        values[name] = eval(python, {}, names)
    assert values == {"P": XL.num_parameters(), "A": sum(kept_activations(XL).values())}
    passes = 3 * sum(forward_flops(OF_2025["XL"]).values())
    for precision, peak, low, high in (("float32", 19.5e12, 18, 18.1), ("bfloat16", 312e12, 1, 2)):
        assert peak == peak_flops("NVIDIA A100", precision)
        years = 400_000 * 1_024 * passes / (0.5 * peak) / 86_400 / 365.25
        assert low < years < high


@pytest.mark.slow
def test_the_step_memory_on_the_page_is_right():
    expected = {}
    for batch in (7, 8):
        memory = step_memory(TrainConfig(model=XL, batch_size=batch))
        found = (memory.weights, memory.gradients, memory.optimizer, memory.activations)
        expected[str(batch)] = [f"{size / 1e9:.2f} GB" for size in (*found, memory.total)]
    assert table("step memory") == expected
    assert float(expected["7"][-1][:-3]) <= 80 < float(expected["8"][-1][:-3])


# ------------------------------------------------------------------------------ SGD


def test_the_sgd_losses_on_the_page_are_right():
    losses = {}
    for rate in (10.0, 100.0, 1000.0):
        weights = torch.nn.Parameter(5 * torch.randn(10, 10, dtype=torch.float64))
        optimizer = SGD([weights], lr=rate)
        losses[rate] = []
        for _ in range(11):
            optimizer.zero_grad()
            loss = (weights**2).mean()
            losses[rate].append(loss.item())
            loss.backward()
            optimizer.step()

    def shown(rate, steps):
        factor = losses[rate][steps] / losses[rate][0]
        return "0" if factor < 1e-20 else f"{factor:.3g}"

    assert table("sgd") == {
        str(steps): [shown(rate, steps) for rate in losses] for steps in (1, 2, 3, 4, 10)
    }
    # The first step multiplies each weight by 1 - 0.02 * 1000 = -19.
    assert shown(1000.0, 1) == str(19**2)
