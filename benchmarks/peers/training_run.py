"""Train with one library and print the time and the peak memory of this process.

    python training_run.py START LIBRARY FILE VOCAB_SIZE THREADS PATTERN

START is the value of `time.time()` just before the process was started. The output is JSON with
four keys: `seconds`, the time from calling the library until it returns; `whole`, the time from
START until it returns, including imports; `peak`, the peak memory in bytes; and `tokens`, the
merged tokens in hexadecimal; converting the result to tokens is not timed. Only the library is
imported before the measurement.
"""

import json
import sys
import time

EOT = "<|endoftext|>"


def documents(path):
    with open(path, encoding="utf-8", newline="") as file:
        return [document for document in file.read().split(EOT) if document]


def by_id(vocab):
    """Return the merged tokens of a dict from token to id."""
    tokens = sorted(vocab, key=vocab.get)
    return [token for token in tokens if len(token) > 1 and token not in (EOT, EOT.encode())]


# Each function imports a library and returns two functions: one that trains, and one that converts
# the result to merged tokens.


def ours():
    from cs336_basics import train_bpe

    def train(path, vocab_size, threads, pattern):
        return train_bpe(path, vocab_size, [EOT], trainer="native", num_workers=threads)

    return train, lambda result: [left + right for left, right in result[1]]


def gigatoken():
    import gigatoken

    def train(path, vocab_size, threads, pattern):
        source = gigatoken.TextFileSource([path], separator=EOT)
        return gigatoken.train_bpe(source, vocab_size, [EOT])

    return train, lambda result: [left + right for left, right in result[1]]


def gigabpe():
    import gigabpe

    def train(path, vocab_size, threads, pattern):
        return gigabpe.train_bpe(
            [path], vocab_size, special_tokens=[EOT], pretokenizer="bytelevel", threads=threads
        )

    def tokens(result):
        from cs336_basics.formats.byte_strings import string_to_token

        return [string_to_token(left) + string_to_token(right) for left, right in result[1]]

    return train, tokens


def ffbpe():
    import ffbpe

    def train(path, vocab_size, threads, pattern):
        splitter = ffbpe.PreTokenizer([EOT], eot_token=EOT)
        trainer = ffbpe.BpeTrainer([EOT], unit="byte", tie_break="largest_content")
        trainer.add_words(splitter.get_words_from_file(path))
        trainer.train(vocab_size)
        return trainer.vocab

    return train, by_id


def rustbpe():
    import rustbpe

    def train(path, vocab_size, threads, pattern):
        tokenizer = rustbpe.Tokenizer()
        tokenizer.train_from_iterator(iter(documents(path)), vocab_size - 1, pattern=pattern)
        return tokenizer.get_mergeable_ranks()

    return train, lambda ranks: [bytes(token) for token, _ in ranks[256:]]


def bpeasy():
    import bpeasy

    def train(path, vocab_size, threads, pattern):
        return bpeasy.train_bpe(iter(documents(path)), pattern, 1 << 20, vocab_size - 1)

    return train, by_id


def tokenizers():
    import tokenizers

    def train(path, vocab_size, threads, pattern):
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[EOT],
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(documents(path), trainer)
        return tokenizer

    def tokens(tokenizer):
        from cs336_basics.formats.byte_strings import string_to_token

        return [string_to_token(token) for token in by_id(tokenizer.get_vocab())]

    return train, tokens


LIBRARIES = {f.__name__: f for f in (ours, gigabpe, gigatoken, ffbpe, rustbpe, tokenizers, bpeasy)}


def main():
    process_start, name, path, vocab_size, threads, pattern = sys.argv[1:]
    train, tokens = LIBRARIES[name]()
    start = time.perf_counter()
    result = train(path, int(vocab_size), int(threads), pattern)
    seconds = time.perf_counter() - start
    whole = time.time() - float(process_start)

    from cs336_basics._support.memory import peak_memory

    peak = peak_memory()
    merged = [token.hex() for token in tokens(result)]
    print(json.dumps({"seconds": seconds, "whole": whole, "peak": peak, "tokens": merged}))


if __name__ == "__main__":
    main()
