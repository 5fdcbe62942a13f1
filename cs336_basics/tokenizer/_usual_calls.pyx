# distutils: language = c++
"""Methods of Tokenizer whose usual calls are compiled.

A call for a short text takes less time than a few Python frames. The decorators of this module
therefore return a compiled method. It hands a call with a single argument, as most calls are, to
the `UsualCalls` of the tokenizer's encoder. Every other call, and every text or list of ids that
`UsualCalls` declines, runs the decorated method, which defines what the call means.
"""

from functools import wraps


cdef class UsualCalls:
    """The usual calls of a tokenizer, or None for what they decline.

    They decline everything here. `_encoder.CompiledCalls` overrides them.
    """

    cdef list encode(self, str text):
        """Return the ids of a text in which all added tokens become ids."""
        return None

    cdef object encode_array(self, str text):
        """Return the ids as an array."""
        return None

    cdef object decode(self, object ids, bint as_text):
        """Return the text or the bytes of a list or array of ids."""
        return None


cdef inline UsualCalls calls_of(tokenizer):
    calls = tokenizer._calls
    return <UsualCalls>calls if isinstance(calls, UsualCalls) else None


def encode(method):
    """Return `Tokenizer.encode` with its usual calls compiled."""

    @wraps(method)
    def encode(self, text, *, allowed_special=None, disallowed_special=()):
        cdef UsualCalls calls
        if allowed_special is None and disallowed_special == () and type(text) is str:
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
            allowed_special is None and disallowed_special == () and type(text) is str
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
