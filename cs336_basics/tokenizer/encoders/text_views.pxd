"""C++ views of Python texts: str or valid UTF-8 bytes (`native/unicode/text_view.hpp`)."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8String
from libc.stdint cimport uint8_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector


cdef extern from "unicode/text_view.hpp" namespace "cs336" nogil:
    cdef struct TextSpan:
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
    size_t utf8_room(const TextView&)

    cdef cppclass Utf8Writer:
        Utf8Writer(const TextView&, int num_threads) except +
        size_t size()
        cbool write(uint8_t* out) except +


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
        raise TypeError(f"text is of type {type(text).__name__}, not str or bytes")
    return view


cdef inline int view_texts(list texts, vector[TextView]& views) except -1:
    """Append views of texts to a vector. The texts must outlive the views."""
    views.reserve(len(texts))
    for text in texts:
        views.push_back(view_text(text))
    return 0


cdef inline object utf8_text(text, int num_threads=1):
    """Return a text whose view is UTF-8: ASCII str or bytes.

    Raises:
        UnicodeEncodeError: If the text contains a lone surrogate.
    """
    cdef TextView view = view_text(text)
    cdef unique_ptr[Utf8Writer] writer
    cdef uint8_t* out
    cdef cbool done
    if view.kind == UTF8:
        return text
    with nogil:
        writer.reset(new Utf8Writer(view, num_threads))
    data = PyBytes_FromStringAndSize(NULL, writer.get().size())
    out = <uint8_t*>PyBytes_AS_STRING(data)
    with nogil:
        done = writer.get().write(out)
    # If the writer failed, this conversion raises the error. A subclass could override
    # `text.encode`.
    return data if done else PyUnicode_AsUTF8String(text)
