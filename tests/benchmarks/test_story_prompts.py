"""The benchmark of prompts finds the noun of a story, and counts the stories that name it."""

from benchmarks.models.story_prompts import count, rows


def test_a_story_becomes_a_row_if_its_first_sentence_names_a_noun():
    stories = ["\nOnce, a dog, ran. It saw a cat.", "She ran. A cat sat.", "Dogma is no dog! "]
    assert list(rows(stories)) == [
        {"prompt": "write a story about a dog", "story": "Once, a dog, ran. It saw a cat."},
        {"prompt": "write a story about a dog", "story": "Dogma is no dog!"},
    ]


def test_a_story_is_compared_with_its_own_noun_and_with_the_others():
    written = [("dog", "Two dogs and a cat."), ("cat", "A catalog."), ("bee", "A bee.")]
    assert count(written) == (2 / 3, 1 / 6)
