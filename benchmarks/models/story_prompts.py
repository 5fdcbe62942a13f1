"""Measure whether a model that was trained on prompts writes about what a prompt names.

    python -m benchmarks.models.story_prompts rows STORIES.txt turns.jsonl
    python -m cs336_basics train --init-from RUN --data.train-path turns.jsonl \\
        --data.prompt-field prompt --data.answer-field story --run-dir runs/chat --max-steps 300
    python -m benchmarks.models.story_prompts count runs/chat

"rows" reads stories that are separated by <|endoftext|>. For each story whose first sentence
contains one of NOUNS, it writes a JSON line: {"prompt": "write a story about a NOUN", "story":
STORY}.

"count" lets the model of a run write stories about the first nouns of NOUNS, which are frequent in
TinyStories, and prints the share of those that contain the noun of their prompt. For comparison, it
also prints how often a story contains the noun of another prompt.
"""

import argparse
import itertools
import json
import re
from pathlib import Path

import torch

from cs336_basics import load_run
from cs336_basics._support.text import END_OF_TEXT, turn
from cs336_basics.generation import Sampling

NOUNS = re.findall(
    r"\w+",
    """dog cat house bird garden bear bunny tree toy fish rabbit frog ball car box boat mouse duck
    bug lion monkey princess squirrel farmer elephant bee train puppy king pond fox rock river
    cow truck horse pig castle bike cake flower book sheep kitten dragon wolf plane doll star
    robot butterfly turtle snake chicken tiger spider balloon moon kite hat apple""",
)
SENTENCE_END = re.compile(r"[.!?]")


def rows(stories):
    """Yield a row for each story whose first sentence contains one of NOUNS as a word."""
    for story in map(str.strip, stories):
        words = SENTENCE_END.split(story, maxsplit=1)[0].lower().split()
        noun = next((word for word in map(stripped, words) if word in NOUNS), None)
        if noun is not None:
            yield {"prompt": prompt(noun), "story": story}


def prompt(noun):
    return f"write a story about a {noun}"


def stripped(word):
    return word.strip(",;:'\"")


def contains(story, noun):
    return re.search(rf"\b{noun}s?\b", story.lower()) is not None


def count(written):
    """Return the share of stories with the noun of their prompt, and with a given other noun.

    Args:
        written: List of pairs of a noun and a story.
    """
    named = [contains(story, noun) for noun, story in written]
    nouns = sorted({noun for noun, _ in written})
    others = [
        contains(story, other)
        for (noun, story), other in itertools.product(written, nouns)
        if other != noun
    ]
    return sum(named) / len(named), sum(others) / len(others)


def write_stories(run, num_nouns, num_stories, new_tokens, temperature):
    generator = torch.Generator().manual_seed(0)
    sampling = Sampling(temperature=temperature)
    return [
        (noun, run.generate(turn(prompt(noun)), new_tokens, sampling, generator=generator))
        for noun in NOUNS[:num_nouns]
        for _ in range(num_stories)
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("rows")
    command.add_argument("stories", type=Path)
    command.add_argument("output", type=Path)
    command = commands.add_parser("count")
    command.add_argument("run")
    command.add_argument("--nouns", type=int, default=18)
    command.add_argument("--stories", type=int, default=4, help="stories for each noun")
    command.add_argument("--new-tokens", type=int, default=120)
    command.add_argument("--temperature", type=float, default=0.8)
    args = parser.parse_args()
    if args.command == "rows":
        stories = args.stories.read_text(encoding="utf-8").split(END_OF_TEXT)
        lines = [json.dumps(row) for row in rows(stories)]
        args.output.write_text("".join(f"{line}\n" for line in lines))
        print(f"{len(lines):,} rows")
        return
    run = load_run(args.run)
    written = write_stories(run, args.nouns, args.stories, args.new_tokens, args.temperature)
    named, others = count(written)
    for noun, story in written[:: args.stories]:
        print(f"{noun}: {' '.join(story.split())}\n")
    print(f"{named:.1%} of {len(written)} stories contain the noun of their prompt")
    print(f"{others:.1%} contain a given noun of another prompt")


if __name__ == "__main__":
    main()
