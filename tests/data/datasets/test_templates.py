"""The story files' template language."""

from cs336_basics.data.datasets.sample import Story, random_numbers
from cs336_basics.data.datasets.templates import parse_template, render


def tell(text):
    return render(parse_template(text), Story(random_numbers(0, 0)))


def test_choices_nest_and_a_cast_entry_stays_the_same():
    told = {
        render(parse_template("[one|two [red|blue]|]."), Story(random_numbers(0, i)))
        for i in range(100)
    }
    assert told == {"one.", "two red.", "two blue.", "."}
    first, again, other, capital = tell("{task}/{task}/{task2}/{Task}").split("/")
    assert first == again != other
    assert capital == first[0].upper() + first[1:]
    assert tell("{hero}{hero.he}") == tell("{hero}{he}")
    assert tell("{a thing}, {A thing}, {thing}") in {
        f"{article} {thing}, {article.capitalize()} {thing}, {thing}"
        for article in ("a", "an")
        for thing in [tell("{thing}")]
    }
    assert tell("one\ntwo\n\nthree") == "one two\nthree"
