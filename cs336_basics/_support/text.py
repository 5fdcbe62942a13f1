"""Text constants shared by the whole package, and the template of a conversation."""

from cs336_basics._support.errors import InputError

END_OF_TEXT = "<|endoftext|>"
"""Special token that ends each document (Radford et al. 2019)."""

USER = "<|user|>"
"""Special token before a prompt."""

ASSISTANT = "<|assistant|>"
"""Special token between a prompt and its answer."""


def separator_in(text: str) -> str | None:
    """Return a special token of the template of a conversation that a text contains, or None."""
    return next((token for token in (USER, ASSISTANT, END_OF_TEXT) if token in text), None)


def turn(prompt: str, answer: str = "") -> str:
    """Return a turn of a conversation: a prompt and the beginning of the answer.

    The end of the answer is END_OF_TEXT, which is not included.

    Raises:
        ValueError: If the prompt or the answer contains one of these three special tokens, because
            a text could then stand for other turns.
    """
    for argument, text in (("prompt", prompt), ("answer", answer)):
        token = separator_in(text)
        if token is not None:
            raise InputError(
                f"must not contain {token}, which separates prompts and answers",
                argument=argument,
                remedy="remove it from the text",
            )
    return f"{USER}{prompt}{ASSISTANT}{answer}"
