# distutils: language = c++
"""Binding of native/decoder.hpp: ids to bytes and text.

Arguments are checked by the callers; here are types, memory and the GIL.
"""

import numpy as np

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libcpp.memory cimport unique_ptr


cdef extern from "memory.hpp" namespace "cs336" nogil:
    void ask_for_huge_pages(void* memory, size_t num_bytes)

cdef extern from "decoder.hpp" namespace "cs336" nogil:
    size_t DECODER_SLACK

    cdef cppclass CppDecoder "cs336::Decoder":
        CppDecoder(const uint8_t*, const int64_t*, size_t) except +
        size_t check[Id](const Id* ids, size_t count, size_t& num_bytes)
        uint8_t* write[Id](const Id* ids, size_t count, uint8_t* out)

cdef extern from *:
    """
    // The value of a Python int below 2^30, read from its digits: a call for each would take half of
    // the time of decoding. Larger ones are rare, and read by a call. UINT32_MAX stands for objects
    // that are not an int of 32 bits.
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
    LIST_STEP = 2048  # ids of a list that are converted at a time; they stay in the L1 cache


cdef class Decoder:
    """The tokens of a vocabulary by id.

    Args:
        token_data, token_offsets: uint8 and int64 arrays: the token of id i is
            `token_data[token_offsets[i] : token_offsets[i + 1]]`, empty for an id without a token.

    Raises:
        ValueError: the tokens take more than 4 GiB.
    """

    cdef unique_ptr[CppDecoder] decoder
    cdef size_t num_ids

    def __init__(self, const uint8_t[::1] token_data not None,
                 const int64_t[::1] token_offsets not None):
        self.num_ids = token_offsets.shape[0] - 1
        self.decoder.reset(new CppDecoder(
            &token_data[0] if token_data.shape[0] else NULL, &token_offsets[0], self.num_ids))

    def decode(self, ids, bint as_text):
        """Return the bytes of ids, a list or an array; or their text, with U+FFFD for bad UTF-8.

        Returns None for everything else, and where an id has no token or is not an int: the caller
        then finds out which.
        """
        cdef const uint16_t[::1] narrow
        cdef const uint32_t[::1] wide
        if type(ids) is list:
            return self.decode_list(ids, as_text)
        if not isinstance(ids, np.ndarray):
            return None
        if ids.ndim != 1 or not ids.flags.c_contiguous or not ids.dtype.isnative:
            return None
        if len(ids) == 0:
            return self.decode_array(<const uint32_t*>NULL, 0, as_text)
        if ids.dtype == np.uint16:
            narrow = ids
            return self.decode_array(&narrow[0], narrow.shape[0], as_text)
        if ids.dtype != np.uint32:
            if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= self.num_ids:
                return None
            ids = ids.astype(np.uint32)
        wide = ids
        return self.decode_array(&wide[0], wide.shape[0], as_text)

    cdef decode_list(self, list ids, bint as_text):
        cdef const CppDecoder* decoder = self.decoder.get()
        cdef uint32_t some[LIST_STEP]
        cdef size_t count = PyList_GET_SIZE(ids), done = 0, used = 0, added, step, i
        cdef size_t capacity = 5 * count + 64
        cdef char* out = <char*>PyMem_RawMalloc(capacity)
        cdef char* larger
        if out != NULL:
            ask_for_huge_pages(out, capacity)
        try:
            while done < count:
                step = min(count - done, <size_t>LIST_STEP)
                for i in range(step):
                    some[i] = small_int(PyList_GET_ITEM(ids, done + i))
                added = 0
                # (An object that is not an int of 32 bits became UINT32_MAX, which is not an id.)
                if decoder.check(<const uint32_t*>some, step, added) < step:
                    return None
                if out == NULL or used + added + DECODER_SLACK > capacity:
                    capacity = max(2 * capacity, used + added + DECODER_SLACK)
                    larger = <char*>PyMem_RawRealloc(out, capacity)
                    if larger == NULL:
                        raise MemoryError(f"there is no memory for {capacity:,} bytes of text")
                    out = larger
                decoder.write(<const uint32_t*>some, step, <uint8_t*>out + used)
                used += added
                done += step
            return bytes_or_text(out, used, as_text)
        finally:
            PyMem_RawFree(out)

    cdef decode_array(self, const id_t* ids, size_t count, bint as_text):
        cdef const CppDecoder* decoder = self.decoder.get()
        cdef size_t num_bytes = 0, known
        cdef char* out
        with nogil:
            known = decoder.check(ids, count, num_bytes)
        if known < count:
            return None
        out = <char*>PyMem_RawMalloc(num_bytes + DECODER_SLACK)
        if out == NULL:
            raise MemoryError(f"there is no memory for {num_bytes:,} bytes of text")
        try:
            with nogil:
                decoder.write(ids, count, <uint8_t*>out)
            return bytes_or_text(out, num_bytes, as_text)
        finally:
            PyMem_RawFree(out)


cdef bytes_or_text(const char* data, size_t size, bint as_text):
    if as_text:
        return PyUnicode_DecodeUTF8(data, size, "replace")
    return PyBytes_FromStringAndSize(data, size)
