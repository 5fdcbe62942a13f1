"""A conversation with a model that was trained on prompts and answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cs336_basics._support.text import ASSISTANT, END_OF_TEXT, USER, turn

if TYPE_CHECKING:
    from cs336_basics.tokenizer import Tokenizer

STOPS = (USER, ASSISTANT)
"""Texts that end an answer, in addition to END_OF_TEXT. They are not part of it."""


class Conversation:
    """The turns of a conversation, as far as they fit into a model's context.

    The model sees all of them: each turn ends with END_OF_TEXT, as in the training data. The oldest
    turns are forgotten when there is no room for them, a prompt and its answer.

    Args:
        tokenizer: The model's tokenizer.
        context_length: The model's context length.
        max_new_tokens: Maximum number of tokens of an answer. Room is kept for this number, but for
            at most half of the context.
    """

    def __init__(self, tokenizer: Tokenizer, context_length: int, max_new_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._limit = context_length - min(max_new_tokens, context_length // 2)
        self._turns: list[str] = []

    def text_for(self, prompt: str) -> str:
        """Return the text that the model is to continue with the answer to a prompt.

        Raises:
            ValueError: If the prompt contains a special token of the template.
        """
        asked = turn(prompt)
        while True:
            text = END_OF_TEXT.join([*self._turns, asked])
            if not self._turns or len(self._tokenizer.encode(text)) <= self._limit:
                return text
            del self._turns[0]

    def recorded(self, prompt: str, answer: Iterator[str]) -> Iterator[str]:
        """Yield the parts of the answer to a prompt, and remember those that were requested."""
        self._turns.append(turn(prompt))
        for text in answer:
            self._turns[-1] += text
            yield text

    def forget(self) -> None:
        """Start a new conversation."""
        self._turns.clear()
