"""`python -m cs336_basics generate`: its options, and the interactive prompt."""

from __future__ import annotations

import dataclasses
import io
import re
import sys

import pytest

import cs336_basics.generation.streaming as streaming
from cs336_basics.generation import generate
from cs336_basics.model import ModelConfig
from tests.commands.small_run import command, error_of, fill_weights
from tests.commands.test_export import make_run
from tests.tokenizer.examples import byte_tokenizer

main = command("generate")

MODEL = ModelConfig(
    vocab_size=257, context_length=16, d_model=16, num_layers=1, num_heads=2, d_ff=32
)


@pytest.fixture
def run(tmp_path):
    """A run with two different untrained byte-level models as checkpoints 1 and 2."""
    return make_run(tmp_path / "run", MODEL, byte_tokenizer("<|endoftext|>"))


def text_of(capsys, run, *words):
    assert main(["--run", str(run.path), "--max-new-tokens", "30", *words]) == 0
    return capsys.readouterr().out


def test_an_empty_prompt_starts_a_new_document(run, capsys):
    document = text_of(capsys, run, "--prompt", "<|endoftext|>", "--temperature", "0")
    assert "<|endoftext|>" + text_of(capsys, run, "--temperature", "0") == document


def test_the_seed_determines_the_text(run, capsys):
    texts = [text_of(capsys, run, "--seed", seed) for seed in ("1", "1", "2")]
    assert texts[0] == texts[1] != texts[2]


def test_the_newest_checkpoint_is_the_default(run, capsys):
    default = text_of(capsys, run)
    assert text_of(capsys, run, "--checkpoint", str(run.checkpoint(2))) == default
    assert text_of(capsys, run, "--checkpoint", str(run.checkpoint(1))) != default


def test_only_whole_characters_are_streamed(run, monkeypatch):
    ids = list("€ 雪 🦔 naïve".encode())
    monkeypatch.setattr(streaming, "generate", lambda *_, **__: iter(ids))
    parts = []

    class Terminal(io.StringIO):
        def write(self, text):
            parts.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stdout", Terminal())
    assert main(["--run", str(run.path)]) == 0
    assert "".join(parts) == "€ 雪 🦔 naïve\n"
    assert "�" not in "".join(parts)
    assert [part for part in parts if part.strip()] == list("€雪🦔naïve")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--temperature", "-1"], "temperature .*-1"),
        (["--device", "abacus"], "abacus"),
        (["--checkpoint", "nothing.pt"], "nothing.pt"),
        (["--interactive", "--prompt", "a"], "remove --prompt"),
        (["--stop", ""], "stop must not contain"),
        (["--prompt", "a\ud800"], "valid UTF-8, got 'a.ud800'"),
        (["--prompt", "a\udcff"], "valid UTF-8, got 'a.udcff'"),
    ],
)
def test_an_invalid_option_is_a_one_line_error(run, capsys, words, named):
    assert main(["--run", str(run.path), *words]) == 2
    assert re.search(named, error_of(capsys, "generate"))


def test_a_prompt_is_utf8_in_every_locale(run, monkeypatch, capsys):
    monkeypatch.setattr(streaming, "generate", lambda *_, **__: iter(b"!"))
    escaped = "café".encode().decode("ascii", "surrogateescape")  # as in the locale C
    assert text_of(capsys, run, "--prompt", escaped) == "café!\n"


def test_a_stop_string_ends_the_text(run, monkeypatch, capsys):
    monkeypatch.setattr(streaming, "generate", lambda *_, **__: iter(b"ab<>cd"))
    assert text_of(capsys, run, "--stop", "<>") == "ab\n"


def test_the_cache_is_optional_and_does_not_change_the_text(run, monkeypatch, capsys):
    used = []

    def noted(*arguments, **options):
        used.append(options["use_cache"])
        return generate(*arguments, **options)

    monkeypatch.setattr(streaming, "generate", noted)
    assert text_of(capsys, run) == text_of(capsys, run, "--no-cache")
    assert used == [True, False]


def answers(monkeypatch, *lines):
    """Make `input` return the given lines in turn. Lines that are exceptions are raised."""
    left = iter(lines)

    def ask(_prompt):
        line = next(left, EOFError())
        if isinstance(line, BaseException):
            raise line
        return line

    monkeypatch.setattr("builtins.input", ask)


def test_interactive_continues_each_line(run, capsys, monkeypatch):
    answers(monkeypatch, "Once", "", "Once")
    first, empty, second = text_of(capsys, run, "--interactive", "--max-new-tokens", "3")[
        :-1
    ].split("\n")  # this model generates no line break within three tokens
    assert first.startswith("Once")
    assert second.startswith("Once")
    assert first != second  # the prompts share one random generator
    assert not empty.startswith("Once")


def test_interactive_continues_after_a_bad_prompt_and_an_interrupted_text(run, capsys, monkeypatch):
    calls = []

    def interrupted(*arguments, **options):
        calls.append(arguments)
        yield ord("x")
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(streaming, "generate", interrupted)
    answers(monkeypatch, "one ", "bad \ud800", "two ")
    assert main(["--run", str(run.path), "--interactive"]) == 0
    out, error = capsys.readouterr()
    assert out == "one x\ntwo x\n"
    assert "valid UTF-8" in error


def test_interactive_continues_after_invalid_utf_8(run, capsys, monkeypatch):
    prompts = io.TextIOWrapper(io.BytesIO(b"one\ncaf\xe9\ntwo\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", prompts)
    assert main(["--run", str(run.path), "--interactive", "--max-new-tokens", "0"]) == 0
    out, error = capsys.readouterr()
    assert out == "one\ntwo\n"
    assert error.startswith("cs336 generate: error: ")
    assert error.count("\n") == 1


def test_ctrl_c_at_the_prompt_exits(run, capsys, monkeypatch):
    answers(monkeypatch, KeyboardInterrupt())
    assert main(["--run", str(run.path), "--interactive"]) == 130


def test_weights_that_are_not_finite_are_an_error_that_names_the_checkpoint(run, capsys):
    checkpoint = fill_weights(run.path, float("nan"))
    assert main(["--run", str(run.path)]) == 2
    assert f"{checkpoint}: weight" in error_of(capsys, "generate")


@pytest.fixture
def chat_run(tmp_path):
    """A run whose tokenizer has the special tokens of a conversation."""
    model = dataclasses.replace(MODEL, vocab_size=259)
    return make_run(
        tmp_path / "chat", model, byte_tokenizer("<|endoftext|>", "<|user|>", "<|assistant|>")
    )


def test_a_chat_continues_the_template_and_prints_the_answer(chat_run, capsys, monkeypatch):
    template = "<|user|>Who?<|assistant|>"
    whole = text_of(capsys, chat_run, "--prompt", template)
    assert whole.startswith(template)
    answer = text_of(capsys, chat_run, "--chat", "--prompt", "Who?")
    assert answer == whole.removeprefix(template) != "\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("Who?\nWho <|user|>\n"))
    assert (
        main(["--run", str(chat_run.path), "--max-new-tokens", "30", "--chat", "--interactive"])
        == 0
    )
    printed = capsys.readouterr()
    assert printed.out == answer
    assert "must not contain <|user|>" in printed.err


def test_a_chat_stops_at_the_end_of_the_answer(chat_run, capsys, monkeypatch):
    def ids(model, prompt_ids, *_, eos_id, **__):
        assert (prompt_ids[0], prompt_ids[-1], eos_id) == (257, 258, 256)
        return iter(b"The cat.")

    monkeypatch.setattr(streaming, "generate", ids)
    assert text_of(capsys, chat_run, "--chat", "--prompt", "Who?") == "The cat.\n"


def test_an_interactive_chat_remembers_its_turns(chat_run, capsys, monkeypatch):
    seen = []

    def ids(model, prompt_ids, *_, **__):
        seen.append(bytes(i for i in prompt_ids if i < 256).decode())
        return iter([*f"{len(seen)}.".encode(), 257, *b"Who is next?"])

    monkeypatch.setattr(streaming, "generate", ids)
    monkeypatch.setattr(sys, "stdin", io.StringIO("a?\nb?\nbad <|user|>\n\nc?\nd?\n"))
    command = ["--run", str(chat_run.path), "--max-new-tokens", "2", "--chat", "--interactive"]
    assert main(command) == 0
    # The model's own next prompt is not part of the answer. An empty line starts again.
    assert seen == ["a?", "a?1.b?", "c?", "c?3.d?"]
    assert capsys.readouterr().out == "1.\n2.\n3.\n4.\n"


def test_a_chat_requires_a_prompt_and_a_run_with_its_tokens(run, chat_run, capsys):
    assert main(["--run", str(run.path), "--chat", "--prompt", "Who?"]) == 2
    assert "no special token <|user|>" in error_of(capsys, "generate")
    assert main(["--run", str(chat_run.path), "--chat"]) == 2
    assert "--chat requires a prompt" in error_of(capsys, "generate")
    assert main(["--run", str(chat_run.path), "--chat", "--prompt", "<|assistant|>"]) == 2
    assert "--prompt must not contain <|assistant|>" in error_of(capsys, "generate")
