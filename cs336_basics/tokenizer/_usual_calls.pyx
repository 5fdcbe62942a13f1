# distutils: language = c++
"""Methods of Tokenizer and StreamingDecoder whose usual calls are compiled.

A call for a short text takes less time than a few Python frames. The decorators of this module
therefore return a compiled method. It hands a call with a single argument, as most calls are, to
the `UsualCalls` of the tokenizer's encoder. Every other call, and every text or list of ids that
`UsualCalls` declines, runs the decorated method, which defines what the call means.
"""

from functools import wraps

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)


cdef class UsualCalls:
    """The usual calls of a tokenizer, or None for what they decline.

    They decline everything here. `_encoder.CompiledCalls` overrides them.
    """

    cdef list encode(self, str text):
        """Return the ids of a text, where all added tokens become ids."""
        return None

    cdef object encode_array(self, str text):
        """Return the ids as an array."""
        return None

    cdef object decode(self, object ids, bint as_text):
        """Return the text or the bytes of a list or array of ids."""
        return None

    cdef object push(self, bytes waiting, object token_id, Rest* rest):
        """Return the whole characters of waiting bytes and an id, and set the bytes after them."""
        return None


@cython.final
cdef class CheckedCalls(UsualCalls):
    """The usual calls of another encoder, which declines some texts.

    Args:
        inner: Usual calls of the other encoder.
        is_doubtful: Function that returns a true value for each text to decline. It is not called
            for ASCII. None declines all texts.
    """

    cdef UsualCalls inner
    cdef object is_doubtful

    def __cinit__(self, UsualCalls inner not None, is_doubtful):
        self.inner = inner
        self.is_doubtful = is_doubtful

    cdef bint declines(self, str text) except -1:
        if self.is_doubtful is None:
            return True
        return not PyUnicode_IS_ASCII(text) and self.is_doubtful(text)

    cdef list encode(self, str text):
        return None if self.declines(text) else self.inner.encode(text)

    cdef object encode_array(self, str text):
        return None if self.declines(text) else self.inner.encode_array(text)

    cdef object decode(self, object ids, bint as_text):
        return self.inner.decode(ids, as_text)

    cdef object push(self, bytes waiting, object token_id, Rest* rest):
        return self.inner.push(waiting, token_id, rest)


cdef inline bint is_empty_tuple(value):
    return type(value) is tuple and not <tuple>value


cdef inline UsualCalls calls_of(tokenizer):
    calls = tokenizer._calls
    return <UsualCalls>calls if isinstance(calls, UsualCalls) else None


def encode(method):
    """Return `Tokenizer.encode` with its usual calls compiled."""

    @wraps(method)
    def encode(self, text, *, allowed_special=None, disallowed_special=()):
        cdef UsualCalls calls
        if allowed_special is None and is_empty_tuple(disallowed_special) and type(text) is str:
            calls = calls_of(self)
            if calls is not None:
                ids = calls.encode(<str>text)
                if ids is not None:
                    return ids
        return method(
            self, text, allowed_special=allowed_special, disallowed_special=disallowed_special
        )

    return encode


def encode_array(method):
    """Return `Tokenizer.encode_array` with its usual calls compiled."""

    @wraps(method)
    def encode_array(self, text, *, num_workers=1, errors="replace", allowed_special=None,
                     disallowed_special=()):
        cdef UsualCalls calls
        if (
            allowed_special is None and is_empty_tuple(disallowed_special) and type(text) is str
            and num_workers is ONE and errors is REPLACE
        ):
            calls = calls_of(self)
            if calls is not None:
                ids = calls.encode_array(<str>text)
                if ids is not None:
                    return ids
        return method(
            self, text, num_workers=num_workers, errors=errors, allowed_special=allowed_special,
            disallowed_special=disallowed_special,
        )

    return encode_array


# The defaults. Other objects that equal them run the decorated method, which checks them.
cdef object ONE = 1, REPLACE = "replace"


def decode(method):
    """Return `Tokenizer.decode` with its usual calls compiled."""
    return _decoding(method, True)


def decode_bytes(method):
    """Return `Tokenizer.decode_bytes` with its usual calls compiled."""
    return _decoding(method, False)


def _decoding(method, bint as_text):
    @wraps(method)
    def decode(self, ids, errors=None, *, skip_special_tokens=False):
        cdef UsualCalls calls
        if errors is None and skip_special_tokens is False:
            calls = calls_of(self)
            if calls is not None:
                found = calls.decode(ids, as_text)
                if found is not None:
                    return found
        return method(self, ids, errors, skip_special_tokens=skip_special_tokens)

    return decode


def stream_push(method):
    """Return `StreamingDecoder.push` with its usual calls compiled."""

    @wraps(method)
    def push(self, token_id):
        cdef UsualCalls calls
        cdef bytes waiting
        cdef Rest rest
        tokenizer = self._usual
        if tokenizer is not None:
            calls = calls_of(tokenizer)
            if calls is not None:
                waiting = self._waiting
                text = calls.push(waiting, token_id, &rest)
                if text is not None:
                    if rest.size or waiting:
                        self._waiting = PyBytes_FromStringAndSize(rest.data, rest.size)
                    return text
        return method(self, token_id)

    return push
