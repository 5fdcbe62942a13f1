"""C++ views of Python texts: str or valid UTF-8 bytes (`native/unicode/text_view.hpp`)."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libcpp.vector cimport vector

from cs336_basics.text.failures cimport Failure


cdef extern from "unicode/text_view.hpp" namespace "cs336" nogil:
    cdef cppclass Buffer:
        uint8_t* data()
        void reserve(size_t size, size_t keep) except +

    cdef cppclass TextSpan:  # for a struct, Cython writes conversions that nobody calls
        const uint8_t* data
        size_t size

    enum TextKind "cs336::TextView::Kind":
        UTF8 "cs336::TextView::UTF8"
        LATIN1 "cs336::TextView::LATIN1"
        UCS2 "cs336::TextView::UCS2"
        UCS4 "cs336::TextView::UCS4"

    cdef cppclass TextView:
        const void* data
        size_t length
        TextKind kind

    size_t utf8_bound(const TextView&)
    Failure as_utf8(const TextView&, Buffer&, TextSpan&) except +


cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    int PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)


cdef inline TextView view_text(text) except *:
    """Return a view of a text. The text must outlive the view."""
    cdef TextView view
    cdef int kind
    if isinstance(text, str):
        kind = PyUnicode_KIND(text)
        view.data = PyUnicode_DATA(text)
        view.length = PyUnicode_GET_LENGTH(text)
        if PyUnicode_IS_ASCII(text):  # already UTF-8
            view.kind = UTF8
        else:
            view.kind = LATIN1 if kind == 1 else UCS2 if kind == 2 else UCS4
    elif isinstance(text, bytes):
        view.data = PyBytes_AS_STRING(text)
        view.length = PyBytes_GET_SIZE(text)
        view.kind = UTF8
    else:  # other buffers could change while they are being read
        from cs336_basics._support.errors import InputTypeError

        raise InputTypeError(f"must be str or bytes, not {type(text).__name__}", argument="text")
    return view


cdef inline int view_texts(list texts, vector[TextView]& views) except -1:
    """Append views of texts to a vector. The texts must outlive the views."""
    views.reserve(len(texts))
    for text in texts:
        views.push_back(view_text(text))
    return 0
