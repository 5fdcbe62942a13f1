# distutils: language = c++
"""Compiled versions of the loops in byte_strings.py over a file's tokens and merges.

They halve the time needed to load GPT-2's vocabulary, and `TokenizerFile` divides the rest by five
(benchmarks/NOTES.md). The tests compare them with the Python code.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.utility cimport pair
from libcpp.vector cimport vector

from cs336_basics.text.text_views cimport TextSpan
from cs336_basics.tokenizer._vocabulary cimport CppWords, Words

import json


cdef extern from "word_merging/rank_file.hpp" namespace "cs336" nogil:
    cbool read_ranks(const uint8_t* file, size_t size, CppWords& words) except +


cdef extern from "word_merging/json_vocabulary.hpp" namespace "cs336" nogil:
    cdef cppclass Range "cs336::JsonVocabulary::Range":
        size_t start, end

    cdef cppclass PlainString "cs336::JsonVocabulary::PlainString":
        Range range
        uint32_t id

    cdef cppclass JsonVocabulary:
        JsonVocabulary(const uint8_t* file, size_t size, const uint16_t* byte_of_code,
                       size_t num_codes) except +
        cbool read(CppWords& words, vector[TextSpan]& pairs) except +
        Range vocab, merges
        vector[PlainString] plain


cdef extern from "Python.h":
    ctypedef uint32_t Py_UCS4
    int PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_UCS4 PyUnicode_READ(int kind, void* data, Py_ssize_t index)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    Py_ssize_t PyUnicode_FindChar(
        object text, Py_UCS4 character, Py_ssize_t start, Py_ssize_t end, int direction
    ) except -2


cdef enum:
    NO_BYTE = 0x100  # as in byte_strings.py


cdef int check_is_table(const uint16_t[::1] byte_of_code) except -1:
    """Raise ValueError if there is no last item, which applies to all higher code points."""
    if byte_of_code.shape[0] == 0:
        raise ValueError("byte_of_code is empty")
    return 0


def strings_to_tokens(list strings not None, const uint16_t[::1] byte_of_code not None):
    """Return the same as `byte_strings.strings_to_tokens`; strings is a list of str."""
    check_is_table(byte_of_code)
    return [
        token_of(<str?>string, 0, PyUnicode_GET_LENGTH(<str?>string), byte_of_code)
        for string in strings
    ]


def merges_of_strings(list pairs not None, const uint16_t[::1] byte_of_code not None):
    """Return the same as `byte_strings.merges_of_strings`, or None if a merge is invalid."""
    check_is_table(byte_of_code)
    cdef list merges = []
    for pair in pairs:
        if type(pair) is str:
            merge = merge_of(pair, 0, PyUnicode_GET_LENGTH(pair), byte_of_code)
            if merge is None:
                return None
            merges.append(merge)
            continue
        if type(pair) is list and len(<list>pair) == 2:
            left, right = (<list>pair)[0], (<list>pair)[1]
            if type(left) is not str or type(right) is not str:
                return None
            left = token_of(left, 0, PyUnicode_GET_LENGTH(left), byte_of_code)
            right = token_of(right, 0, PyUnicode_GET_LENGTH(right), byte_of_code)
        else:
            return None
        if not left or not right:  # None, or an empty string
            return None
        merges.append((left, right))
    return merges


def merges_of_lines(str text not None, const uint16_t[::1] byte_of_code not None):
    """Return `merges_of_strings` for the lines of a text, without building a list of the lines."""
    check_is_table(byte_of_code)
    cdef list merges = []
    cdef Py_ssize_t length = PyUnicode_GET_LENGTH(text), start = 0, stop
    while start <= length:
        stop = PyUnicode_FindChar(text, c"\n", start, length, 1)
        stop = length if stop < 0 else stop
        merge = merge_of(text, start, stop, byte_of_code)
        if merge is None:
            return None
        merges.append(merge)
        start = stop + 1
    return merges


cdef merge_of(str text, Py_ssize_t start, Py_ssize_t stop, const uint16_t[::1] byte_of_code):
    """Return the merge that these characters represent, or None if they represent none."""
    cdef Py_ssize_t space = PyUnicode_FindChar(text, c" ", start, stop, 1)
    left = token_of(text, start, space, byte_of_code)
    right = token_of(text, space + 1, stop, byte_of_code)
    return (left, right) if left and right else None


cdef token_of(str text, Py_ssize_t start, Py_ssize_t stop, const uint16_t[::1] byte_of_code):
    """Return the token that these characters represent, or None if they represent none."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    if stop <= start:
        return b"" if stop == start else None
    cdef bytes token = PyBytes_FromStringAndSize(NULL, stop - start)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(token)
    cdef size_t last = byte_of_code.shape[0] - 1
    cdef uint16_t byte
    cdef Py_ssize_t index
    for index in range(start, stop):
        byte = byte_of_code[min(<size_t>PyUnicode_READ(kind, data, index), last)]
        if byte == NO_BYTE:
            return None
        out[index - start] = <uint8_t>byte
    return token


cdef class TokenizerFile:
    """The vocabulary and the merges of a `tokenizer.json`, as a mapping of string -> id.

    `read` makes it. It has the methods of a dict of the vocabulary that `parsing.py` calls.

    Attributes:
        rest: The file with the number 0 in place of the vocabulary and of the merges.
    """

    cdef Words words
    cdef unique_ptr[JsonVocabulary] file
    cdef vector[TextSpan] pairs
    cdef dict plain  # strings that are not in the byte alphabet
    cdef const uint16_t[::1] byte_of_code
    cdef readonly bytes rest

    def __cinit__(self, bytes content not None, const uint16_t[::1] byte_of_code not None):
        cdef size_t size = PyBytes_GET_SIZE(content)
        check_is_table(byte_of_code)
        self.byte_of_code = byte_of_code
        self.words = Words.__new__(Words, size, size // 12)
        self.file.reset(
            new JsonVocabulary(<const uint8_t*>PyBytes_AS_STRING(content), size, &byte_of_code[0],
                               byte_of_code.shape[0]))
        self.plain = {}

    def __init__(self, *_):
        raise TypeError("use TokenizerFile.read")

    @staticmethod
    def read(bytes content not None, const uint16_t[::1] byte_of_code not None):
        """Read the vocabulary and the merges in the content of a file.

        Returns None if they do not have the usual form, for whatever reason: the file may be
        invalid JSON, or another kind of file.

        Args:
            content: Content of the file, which must be valid UTF-8.
            byte_of_code: See `byte_strings.byte_of_code`.
        """
        cdef TokenizerFile made = TokenizerFile.__new__(TokenizerFile, content, byte_of_code)
        cdef Range first, second
        if not made.file.get().read(made.words.words.get()[0], made.pairs):
            return None
        if not made.words.words.get().index():
            return None
        for plain in made.file.get().plain:
            try:
                text = json.loads(content[plain.range.start : plain.range.end])
                text.encode()
            except ValueError:  # not a string of JSON, or a lone surrogate
                return None
            if text in made.plain:
                return None
            made.plain[text] = plain.id
        first, second = made.file.get().vocab, made.file.get().merges
        if second.start < first.start:
            first, second = second, first
        made.rest = b"%b0%b0%b" % (
            content[: first.start], content[first.end : second.start], content[second.end :]
        )
        return made

    def __len__(self):
        return self.words.words.get().num_tokens() + len(self.plain)

    def get(self, str string not None, default=None):
        """Return the id of a string, or the default."""
        token = token_of(string, 0, PyUnicode_GET_LENGTH(string), self.byte_of_code)
        return self.plain.get(string, default) if token is None else self.words.get(token, default)

    def __contains__(self, string):
        return self.get(string) is not None

    def words_with(self, dict added not None, set own not None):
        """Return the tokens and the merges, or None if they are invalid. Call this once.

        Args:
            added: The ids of the added tokens by their content.
            own: Contents of the added tokens that have the same bytes as an ordinary token. They
                are not among the words.
        """
        cdef vector[pair[string, uint32_t]] more
        cdef CppWords* words = self.words.words.get()
        for text in self.plain:
            if text not in added:
                return None
        for text, token_id in added.items():
            data = (<str>text).encode()
            if text not in own and self.words.get(data) is None:
                more.push_back(pair[string, uint32_t](<string>data, <uint32_t>token_id))
        if not words.add_more(more) or not words.index_ids():
            return None
        return self.words if words.set_merges(self.pairs) else None


def words_of_ranks(bytes content not None, dict special not None, size_t max_bytes,
                   size_t max_bytes_per_token):
    """Return the tokens of a rank file with their merges, and the special tokens.

    Returns None if the file does not have the usual form, or something is invalid: a line, a
    missing byte, an id, or too many bytes.

    Args:
        content: Content of the file.
        special: Mapping of special token -> id.
        max_bytes, max_bytes_per_token: n tokens may have at most `max_bytes` + n *
            `max_bytes_per_token` bytes.

    Returns:
        The words, and the ids of the special tokens that are not among them, because their bytes
        are also the bytes of an ordinary token.
    """
    cdef vector[pair[string, uint32_t]] more
    cdef size_t size = PyBytes_GET_SIZE(content), num_bytes = 0, i
    cdef Words made = Words.__new__(Words, size, size // 12)
    cdef CppWords* words = made.words.get()
    if not read_ranks(<const uint8_t*>PyBytes_AS_STRING(content), size, words[0]):
        return None
    for i in range(words.num_tokens()):
        num_bytes += words.token(i).size
    if num_bytes > max_bytes + max_bytes_per_token * words.num_tokens():
        return None
    if not words.index() or not words.index_ids() or not words.set_merges_of_ranks():
        return None
    own = {}
    taken = set()
    for text, token_id in special.items():
        if type(text) is not str or type(token_id) is not int or token_id in taken:
            return None
        if not 0 <= token_id < 0xFFFFFFFF or made.has_id(token_id):
            return None
        taken.add(token_id)
        data = (<str>text).encode()
        if made.get(data) is None:
            more.push_back(pair[string, uint32_t](<string>data, <uint32_t>token_id))
        else:
            own[text] = token_id
    return (made, own) if words.add_more(more) and words.index_ids() else None
