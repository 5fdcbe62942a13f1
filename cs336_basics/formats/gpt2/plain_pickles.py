"""Reads vocabularies and merges from pickles, without running code and without surprises.

A pickle is a program. Only the instructions that build a dict of integers and bytes, or a list of
pairs of bytes, are executed here. The others could import and call functions, nest values so deeply
that hashing them overflows the stack, reserve memory for any number of stored values, or hold
numbers that all have the same hash.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

from cs336_basics._support.messages import short_reason, short_repr

Pair = tuple[bytes, bytes]

_NEWLINE, _BYTES_1, _BYTES_4, _BYTES_4_UNSIGNED, _BYTES_8 = -1, -2, -3, -4, -5  # see pickletools

_IMPORTS = {"GLOBAL", "STACK_GLOBAL", "INST"}
_DICTS = {"EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"}
_TUPLES = {"EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}
_STORES = {"PUT", "LONG_BINPUT"}
_LONGEST_INTEGER = {"INT": 12, "LONG": 12, "LONG1": 5}
"""Characters or bytes of an integer. Ids have 32 bits; from 61 bits on, integers share hashes."""
_ALLOWED = _DICTS | _TUPLES | _STORES | {
    "PROTO", "FRAME", "MARK", "POP", "POP_MARK", "NONE", "NEWTRUE", "NEWFALSE",
    "MEMOIZE", "BINPUT", "GET", "BINGET", "LONG_BINGET", "EMPTY_LIST", "LIST", "APPEND", "APPENDS",
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1",
    "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
    "SHORT_BINBYTES", "BINBYTES", "BINBYTES8",
}  # fmt: skip


def load_pickled_vocab(data: bytes, path: Path) -> dict[int, bytes]:
    """Return the dict of id -> token in a pickle.

    Raises:
        ValueError: it is not one; names the file and the item.
    """
    content = _load(data, path)
    if type(content) is not dict:
        raise ValueError(
            f"{path} holds a value of type {type(content).__name__}, not a dict of id -> bytes"
        )
    for token_id, token in content.items():
        if type(token_id) is not int or type(token) is not bytes:
            raise ValueError(
                f"{path}: {short_repr(token_id)}: {short_repr(token)} is not an item of "
                "int -> bytes"
            )
    return content


def load_pickled_merges(data: bytes, path: Path) -> list[Pair]:
    """Return the list of pairs of tokens in a pickle.

    Raises:
        ValueError: it is not one; names the file and the item.
    """
    content = _load(data, path)
    if type(content) not in (list, tuple):
        raise ValueError(
            f"{path} holds a value of type {type(content).__name__}, not a list of byte pairs"
        )
    merges: list[Pair] = []
    for rank, pair in enumerate(content):
        if (
            type(pair) not in (list, tuple)
            or len(pair) != 2
            or not all(type(token) is bytes for token in pair)
        ):
            raise ValueError(f"{path}: merge {rank}, {short_repr(pair)}, is not a pair of bytes")
        merges.append((pair[0], pair[1]))
    return merges


class _PlainUnpickler(pickle.Unpickler):
    """Refuses every import, so that no instruction has a function to call."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(
            f"it asks for {short_repr(f'{module}.{name}')[1:-1]}; only dict, list, tuple, int and "
            "bytes are loaded (save it with pickle protocol 3 or later, or as vocab.json and "
            "merges.txt)"
        )


def _load(data: bytes, path: Path) -> Any:
    """Load a pickle that consists of allowed instructions."""
    try:
        _check_instructions(data)
        return _PlainUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # a malformed pickle can raise anything
        raise ValueError(
            f"{path} is not a pickle of plain values: {short_reason(error)}"
        ) from error


def _check_instructions(data: bytes) -> None:
    """Check all instructions up to the end, or to the first import, which the unpickler refuses.

    Raises:
        ValueError: one is not allowed, is cut off, or stores a value under a number that is larger
            than the pickle: the unpickler would reserve memory for all smaller ones. Or there are
            tuples and dicts, so that nested tuples could be keys.
    """
    known = {ord(opcode.code): opcode for opcode in pickletools.opcodes}
    # The size of each instruction with its argument, where it is fixed and needs no other check.
    sizes = [0] * 256
    for code, opcode in known.items():
        size = 1 + (0 if opcode.arg is None else opcode.arg.n)
        if opcode.name in _ALLOWED - _STORES - _DICTS - _TUPLES and size > 0:
            sizes[code] = size
    # The most frequent of the others: SHORT_BINBYTES, SHORT_BINUNICODE and LONG_BINPUT.
    short_strings, long_put = {ord("C"), 0x8C}, ord("r")
    seen: set[str] = set()
    position, end = 0, len(data)
    while position < end:
        code = data[position]
        if size := sizes[code]:
            position += size
        elif code in short_strings and position + 1 < end:
            position += 2 + data[position + 1]
        elif code == long_put and int.from_bytes(data[position + 1 : position + 5], "little") < end:
            position += 5
        else:
            name = known[code].name if code in known else f"with the code {code:#04x}"
            if name == "STOP" or name in _IMPORTS:
                return
            if name not in _ALLOWED:
                raise ValueError(f"it has the instruction {name}")
            position = _end_of_instruction(data, position, known[code])
            seen.add(name)
            if seen & _TUPLES and seen & _DICTS:
                raise ValueError("it has tuples and dicts")
            if name in _TUPLES:
                sizes[code] = 1  # from now on only dicts are checked
    raise ValueError("it is cut off")


def _end_of_instruction(data: bytes, position: int, opcode: pickletools.OpcodeInfo) -> int:
    """Return the offset after an instruction of variable size, or one that stores a value."""
    kind = 0 if opcode.arg is None else opcode.arg.n
    start = position + 1
    if kind == _NEWLINE:
        end = data.index(b"\n", start) + 1
        argument = data[start : end - 1]
        _check_integer(opcode.name, len(argument))
        if opcode.name == "PUT" and not 0 <= int(argument) <= len(data):
            raise ValueError(f"it stores a value under the number {short_repr(argument)}")
        return end
    if opcode.name == "LONG_BINPUT":
        number = int.from_bytes(data[start : start + kind], "little")
        raise ValueError(f"it stores a value under the number {number}")
    if kind >= 0:
        return start + kind
    width = {_BYTES_1: 1, _BYTES_4: 4, _BYTES_4_UNSIGNED: 4, _BYTES_8: 8}[kind]
    length = int.from_bytes(data[start : start + width], "little")
    _check_integer(opcode.name, length)
    return start + width + length


def _check_integer(name: str, length: int) -> None:
    """Refuse an integer that is too long for an id."""
    if length > _LONGEST_INTEGER.get(name, length):
        raise ValueError(f"it has an integer of {length} bytes, too long for an id")
