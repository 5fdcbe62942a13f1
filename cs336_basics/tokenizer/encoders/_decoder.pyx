# distutils: language = c++
"""Binding of native/encoding/decoder.hpp: decode ids to bytes or text.

Callers check arguments; the binding handles types, memory and the GIL.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8, PyUnicode_DecodeUTF8Stateful
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr

from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import np

cdef extern from *:
    """
    // Return the value of a Python int, or UINT32_MAX if the object is not an int that fits 32
    // bits. Ints below 2^30 are read from their digits: an API call for each would take half of the
    // decoding time.
    static inline uint32_t small_int(PyObject* number) {
        if (!PyLong_CheckExact(number)) return UINT32_MAX;
    #if PY_VERSION_HEX >= 0x030C0000
        if (PyUnstable_Long_IsCompact((PyLongObject*)number)) {
            const Py_ssize_t value = PyUnstable_Long_CompactValue((PyLongObject*)number);
            return value < 0 ? UINT32_MAX : (uint32_t)value;
        }
    #else
        const Py_ssize_t size = Py_SIZE(number);
        if (size == 1) return ((PyLongObject*)number)->ob_digit[0];
        if (size == 0) return 0;
        if (size < 0) return UINT32_MAX;
    #endif
        int overflow = 0;
        const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
        return overflow || value < 0 || value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
    }
    """
    uint32_t small_int(PyObject* number)

ctypedef fused id_t:
    uint16_t
    uint32_t

cdef enum:
    STEP = 2048  # ids to decode at a time, few enough for the L1 cache
    MAX_SHORT_LIST = 64  # ids that are decoded without allocating memory
    MAX_SHORT_BYTES = 1024


cdef class Decoder:
    """The tokens of a vocabulary, indexed by id.

    Args:
        token_data, token_offsets: Arrays of dtype uint8 and int64. Id i has the token
            `token_data[token_offsets[i] : token_offsets[i + 1]]`, which is empty if the id is not
            used.

    Raises:
        InputError: If the tokens take 4 GiB or more.
        ValueError: If the offsets decrease or exceed the data, or there are none.
    """

    def __cinit__(self, const uint8_t[::1] token_data not None,
                  const int64_t[::1] token_offsets not None):
        cdef size_t i
        if token_offsets.shape[0] == 0:
            raise ValueError("token_offsets is empty")
        self.num_ids = token_offsets.shape[0] - 1
        for i in range(self.num_ids):
            if not 0 <= token_offsets[i] <= token_offsets[i + 1]:
                raise ValueError("token_offsets must be nonnegative and not decrease")
        if not 0 <= token_offsets[self.num_ids] <= token_data.shape[0]:
            raise ValueError("token_offsets must not exceed the length of token_data")
        try:
            self.decoder.reset(new CppDecoder(
                &token_data[0] if token_data.shape[0] else NULL, &token_offsets[0], self.num_ids))
        except ValueError as error:  # too many bytes in the tokens
            raise InputError(str(error)) from None

    def decode(self, ids, bint as_text):
        """Return the bytes of a list or array of ids, or their text with U+FFFD for invalid UTF-8.

        Return None for other iterables, or if an id has no token or is not an int. The caller then
        finds the reason.
        """
        cdef const uint16_t[::1] narrow
        cdef const uint32_t[::1] wide
        if type(ids) is list:
            return self.decode_list(ids, as_text)
        if type(ids) is not np.ndarray and type(ids) is not np.memmap:
            return None  # for example a masked array
        if ids.ndim != 1 or not ids.flags.c_contiguous or not ids.dtype.isnative:
            return None
        if len(ids) == 0:
            return decode_array(self, <const uint32_t*>NULL, 0, as_text)
        if ids.dtype == np.uint16:
            narrow = ids
            return decode_array(self, &narrow[0], narrow.shape[0], as_text)
        if ids.dtype != np.uint32:
            if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= self.num_ids:
                return None
            ids = ids.astype(np.uint32)
        wide = ids
        return decode_array(self, &wide[0], wide.shape[0], as_text)

    cdef object decode_short(self, list ids, bint as_text):
        """Like `decode`, for a short list; return None for other lists, too."""
        cdef uint32_t some[MAX_SHORT_LIST]
        cdef uint8_t text[MAX_SHORT_BYTES + 16]
        cdef size_t count = PyList_GET_SIZE(ids), size, i
        if count > MAX_SHORT_LIST:
            return None
        for i in range(count):
            some[i] = small_int(PyList_GET_ITEM(ids, i))
        size = self.decoder.get().copy_ids(<const uint32_t*>some, count, some)
        if size > MAX_SHORT_BYTES:  # also if an id has no token
            return None
        self.decoder.get().write(some, count, text)
        if as_text:
            return PyUnicode_DecodeUTF8(<const char*>text, size, "replace")
        return PyBytes_FromStringAndSize(<const char*>text, size)

    cdef object push(self, bytes waiting, object token_id, Rest* rest):
        """Return the whole characters of waiting bytes and an id, and set the bytes after them.

        Return None if the id is unknown or there are more bytes than the stack has room for.
        """
        cdef uint8_t joined[MAX_SHORT_BYTES]
        cdef TextSpan token = self.decoder.get().token(small_int(<PyObject*>token_id))
        cdef const char* data = <const char*>token.data
        cdef Py_ssize_t held = PyBytes_GET_SIZE(waiting), size = held + token.size
        cdef Py_ssize_t num_decoded = size
        if token.size == 0 or size > MAX_SHORT_BYTES:
            return None
        if held > 0:
            memcpy(joined, PyBytes_AS_STRING(waiting), held)
            memcpy(joined + held, token.data, token.size)
            data = <const char*>joined
        # Some Pythons, such as 3.11.2, leave `num_decoded` unchanged if all bytes are ASCII.
        text = PyUnicode_DecodeUTF8Stateful(data, size, "replace", &num_decoded)
        rest.size = size - num_decoded  # at most 3
        memcpy(rest.data, data + num_decoded, rest.size)
        return text

    cdef object decode_list(self, list ids, bint as_text):
        cdef uint32_t some[STEP]
        cdef size_t count = PyList_GET_SIZE(ids), done, step, i
        cdef unique_ptr[Decoding] job
        job.reset(new Decoding(self.decoder.get()[0], count))
        for done in range(0, count, STEP):
            step = min(count - done, <size_t>STEP)
            for i in range(step):
                some[i] = small_int(PyList_GET_ITEM(ids, done + i))
            # Objects that are not 32-bit ints become UINT32_MAX, which is never a valid id.
            if not job.get().append(<const uint32_t*>some, step, some):
                return None
        return bytes_or_text(job.get(), as_text)


cdef object decode_array(Decoder self, const id_t* ids, size_t count, bint as_text):
    cdef uint32_t some[STEP]
    cdef size_t done = 0
    cdef unique_ptr[Decoding] job
    cdef cbool known = True
    job.reset(new Decoding(self.decoder.get()[0], count))
    with nogil:
        while known and done < count:
            known = job.get().append(ids + done, min(count - done, <size_t>STEP), some)
            done += STEP
    return bytes_or_text(job.get(), as_text) if known else None


cdef bytes_or_text(const Decoding* decoded, bint as_text):
    if as_text:
        return PyUnicode_DecodeUTF8(decoded.data(), decoded.size(), "replace")
    return PyBytes_FromStringAndSize(decoded.data(), decoded.size())
