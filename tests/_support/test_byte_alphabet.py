from __future__ import annotations

import pytest

from cs336_basics._support.byte_alphabet import byte_to_character, character_to_byte


def test_the_byte_map_is_the_one_of_gpt2():
    characters = byte_to_character()
    assert [character_to_byte()[characters[byte]] for byte in range(256)] == list(range(256))
    assert sorted(characters) == list(range(256))
    assert len(set(characters.values())) == 256
    assert all(character.isprintable() and character != " " for character in characters.values())
    known = {0x20: "Ġ", 0x0A: "Ċ", 0x09: "ĉ", 0x0D: "č", 0x00: "Ā", 0x7F: "ġ", 0xAD: "Ń", 0xA0: "ł"}
    assert {byte: characters[byte] for byte in known} == known
    assert [characters[byte] for byte in b"!~\xa1\xac\xae\xff"] == list("!~¡¬®ÿ")
    others = [byte for byte in range(256) if characters[byte] != chr(byte)]
    assert [characters[byte] for byte in others] == [chr(0x100 + n) for n in range(68)]


def test_the_byte_map_is_the_one_of_tokenizers():
    pre_tokenizers = pytest.importorskip("tokenizers.pre_tokenizers")
    assert set(byte_to_character().values()) == set(pre_tokenizers.ByteLevel.alphabet())
