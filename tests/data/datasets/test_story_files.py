"""Every slot in the story files can be filled, and every list and table in them is used."""

import itertools

from cs336_basics.data.datasets.story_files import read_library
from cs336_basics.data.datasets.templates import Cast, Choice, Phrase


def parts_of(template):
    for part in template:
        yield part
        if isinstance(part, Choice):
            for option in part.options:
                yield from parts_of(option)


def test_every_slot_of_every_template_can_be_filled():
    library = read_library()
    templates = [plot for plot, _ in library.plots]
    templates += [phrase for phrases in library.phrases.values() for phrase in phrases]
    templates += [
        field for table in library.tables.values() for entry in table for field in entry.values()
    ]
    used = set()
    for part in itertools.chain.from_iterable(map(parts_of, templates)):
        if isinstance(part, Phrase):
            used.add(part.name)
            assert part.name in library.phrases
        elif isinstance(part, Cast):
            people = part.role in ("hero", "friend")
            tables = ["child", "animal"] if people else [part.role.rstrip("23")]
            used.update(tables)
            for entry in itertools.chain.from_iterable(library.tables[table] for table in tables):
                assert part.field in entry, part
    assert used == {*library.phrases, *library.tables}, "an unused list or table"
