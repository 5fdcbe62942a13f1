# distutils: language = c++
"""Binding of encoder.hpp: text to ids and back, without the GIL.

Arguments are checked by `tokenizer.py`; here are types, memory, threads and signals.
"""

import os

import numpy as np

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.ref cimport Py_INCREF, PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string, to_string
from libcpp.vector cimport vector

from cs336_basics.pretokenization.failures cimport (
    ABSENT_BYTE, MEMORY, NONE, NOT_UTF8, SYSTEM, Failure, raise_reading_failure,
)

from cs336_basics.pretokenization._scanner import default_simd_level, scanned_pattern
from cs336_basics.tokenizer.encoders import AbsentByteError as _AbsentByteError


cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

cdef extern from *:
    """
    #include "decoder.hpp"
    #include "file_encoder.hpp"
    """

cdef extern from * namespace "cs336" nogil:
    enum class SimdLevel:
        pass

    int NUM_SIMD_LEVELS
    const char* SIMD_LEVEL_NAMES[]
    uint32_t ABSENT_ID
    size_t OUTPUT_SLACK
    void ask_for_huge_pages(void* memory, size_t num_bytes)
    size_t first_invalid_utf8(const uint8_t* text, size_t size)
    size_t MAX_KEPT_OUTPUT

    cdef cppclass SpecialTokens:
        SpecialTokens() except +
        SpecialTokens(vector[string] tokens) except +

    cdef cppclass SpecialIds:
        SpecialTokens tokens
        vector[uint32_t] ids

    cdef cppclass Buffer:
        uint8_t* data()
        void reserve(size_t size, size_t keep) except +
        void trim(size_t most)

    cdef cppclass EncodingWorker:
        cbool cancelled
        Buffer output

    cdef cppclass CppEncoder "cs336::Encoder":
        unique_ptr[EncodingWorker] make_worker(size_t cache_bytes) except +
        size_t id_size()

    unique_ptr[CppEncoder] make_encoder(
        cbool narrow, const uint32_t* byte_ids, const uint32_t* merges, size_t num_merges,
        size_t cache_bytes, cbool cl100k, SimdLevel simd_level) except +

    cdef struct TextSpan:
        const uint8_t* data
        size_t size

    Failure encode_to(EncodingWorker&, TextSpan, const SpecialIds&, void*, uint32_t,
                      vector[int64_t]*, size_t&) except +
    Failure encode_word_to(EncodingWorker&, TextSpan, void*, size_t&) except +
    vector[TextSpan] cut_text(TextSpan, size_t, const SpecialIds&, cbool) except +

    cdef cppclass BatchEncoder:
        BatchEncoder(const vector[EncodingWorker*]&, size_t, const vector[TextSpan]&,
                      const SpecialIds&) except +
        void start() except +
        cbool wait(int milliseconds)
        void join()
        void cancel()
        const Failure& failure()
        size_t num_ids(size_t i)
        const void* ids(size_t i)
        void gather(uint8_t* out) except +

    cdef cppclass BlockReader:
        BlockReader(const SpecialTokens&, cbool, vector[string], vector[uint64_t], size_t) except +
        size_t num_blocks()

    cdef cppclass EncodedBlock:
        Buffer ids
        size_t num_ids
        vector[int64_t] ends
        uint64_t num_bytes

    cdef cppclass FileEncoder:
        FileEncoder(const BlockReader&, const vector[EncodingWorker*]&, size_t,
                        const SpecialIds&, cbool, uint32_t) except +
        void start() except +
        cbool wait(int milliseconds)
        EncodedBlock* block()
        void next()
        void close()
        const Failure& failure()
        size_t num_encoded()

    cdef cppclass CppDecoder "cs336::Decoder":
        CppDecoder(const uint8_t*, const int64_t*, size_t) except +
        size_t size()
        size_t check[Id](const Id* ids, size_t count, size_t& num_bytes)
        uint8_t* write[Id](const Id* ids, size_t count, uint8_t* out)

cdef extern from "<cstring>" namespace "std" nogil:
    void* memcpy(void*, const void*, size_t)

cdef extern from *:
    """
    // The value of a plain int below 2^30, read as it lies there: a call for each would take half of
    // the time of decoding. Others, which are rare, are asked for; UINT32_MAX is for what is no
    // plain int of 32 bits.
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


# How often a waiting main thread looks for Ctrl-C.
cdef int STEP_MILLISECONDS = 50

# Text that is encoded at a time, in bytes: between two blocks Ctrl-C is seen, and threads take them.
cdef size_t BLOCK_SIZE = 1 << 19

# A text of more bytes is not written straight into an array that has room for as many ids.
cdef size_t MOST_DIRECT = 1 << 30

# So many bytes or ids are worked off where Ctrl-C is not seen: some hundredths of a second (for one
# long word up to 0.7).
cdef size_t MOST_UNWATCHED = 1 << 24

# Ids below this are kept as Python objects: a list of ids then only counts references.
cdef size_t MOST_KEPT_IDS = 1 << 20


class AbsentByteError(_AbsentByteError):
    """The vocabulary lacks a byte of a text.

    Attributes:
        item: number of the text, or of the file.
        offset: place of the byte in it.
        byte: its value.
    """

    item = 0
    offset = 0

    def __init__(self, item, offset, byte):
        super().__init__(byte)
        self.item = item
        self.offset = offset


def is_valid_utf8(bytes data not None):
    """Tell whether bytes are valid UTF-8."""
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef size_t size = PyBytes_GET_SIZE(data)
    cdef size_t place
    with nogil:
        place = first_invalid_utf8(start, size)
    return place == size


def hash_lines(list ids, list tokens, list merges):
    """As `vocab_files.hash_lines`."""
    cdef string lines
    cdef const char* token_ = b"token "
    cdef const char* merge_ = b"merge "
    cdef int overflow = 0
    cdef long long number
    for token_id, token in zip(ids, tokens, strict=True):
        lines.append(token_, 6)
        number = PyLong_AsLongLongAndOverflow(token_id, &overflow)
        lines.append(<string>str(token_id).encode() if overflow else to_string(number))
        lines.push_back(32)
        add_hex(lines, token)
        lines.push_back(10)
    for left, right in merges:
        lines.append(merge_, 6)
        add_hex(lines, left)
        lines.push_back(32)
        add_hex(lines, right)
        lines.push_back(10)
    return <bytes>lines


cdef int add_hex(string& text, token) except -1:
    if not isinstance(token, bytes):  # (One declared as bytes could not be of a subclass.)
        raise TypeError(f"{token!r} is a {type(token).__name__}, not bytes")
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(<bytes>token)
    cdef const char* digits = b"0123456789abcdef"
    cdef size_t place = text.size(), length = PyBytes_GET_SIZE(<bytes>token), i
    text.resize(place + 2 * length)
    for i in range(length):
        text[place + 2 * i] = digits[start[i] >> 4]
        text[place + 2 * i + 1] = digits[start[i] & 15]
    return 0


cdef class SpecialSet:
    """Special tokens that are cut out of a text, and their ids: `SpecialSet([(token, id), ...])`."""

    cdef SpecialIds special
    cdef readonly list tokens

    def __init__(self, tokens_and_ids):
        cdef vector[string] tokens
        # The longest first, as SpecialTokens numbers them.
        pairs = sorted(
            ((token.encode(), token_id) for token, token_id in tokens_and_ids),
            key=lambda pair: len(pair[0]), reverse=True,
        )
        self.tokens = [token.decode() for token, _ in pairs]
        for token, token_id in pairs:
            tokens.push_back(<string>token)
            self.special.ids.push_back(token_id)
        self.special.tokens = SpecialTokens(tokens)


@cython.final
cdef class _Worker:
    """An EncodingWorker, which remembers words from one call to the next."""

    cdef unique_ptr[EncodingWorker] worker


cdef class Encoder:
    """A vocabulary, made ready for encoding and decoding.

    Args:
        byte_ids: the id of every byte, None for one that the vocabulary lacks.
        merges: uint32 of shape (number of merges, 3): left id, right id, merged id, by rank.
        token_data, token_offsets: uint8 and int64: the token of id i is
            `token_data[token_offsets[i] : token_offsets[i + 1]]`, empty for an id without a token;
            both None for a vocabulary whose ids are too far apart for that.
        vocab_size: the greatest id plus one.
        pattern: the split pattern; without a scanner for it only `encode_words` is of use.
        cache_size: bytes for remembered words, of all threads together.
        simd_level: a name in `_scanner.simd_levels()`; None = the fastest.
    """

    cdef unique_ptr[CppEncoder] encoder
    cdef unique_ptr[CppDecoder] table
    cdef list idle
    cdef list kept_ids
    cdef readonly bint scanned
    cdef bint gpt2, narrow
    cdef size_t id_size, vocab_size
    cdef readonly object dtype

    def __init__(self, byte_ids, const uint32_t[:, ::1] merges, const uint8_t[::1] token_data,
                 const int64_t[::1] token_offsets, size_t vocab_size, pattern, size_t cache_size,
                 simd_level=None):
        cdef uint32_t c_byte_ids[256]
        cdef int i
        cdef SimdLevel c_simd_level = <SimdLevel>0
        for i in range(256):
            c_byte_ids[i] = ABSENT_ID if byte_ids[i] is None else byte_ids[i]
        name = scanned_pattern(pattern)
        self.scanned = name is not None
        self.gpt2 = name == "gpt2"
        for i in range(NUM_SIMD_LEVELS):
            if SIMD_LEVEL_NAMES[i].decode() == (simd_level or default_simd_level()):
                c_simd_level = <SimdLevel>i
        self.vocab_size = vocab_size
        self.narrow = vocab_size <= 1 << 16
        self.dtype = np.dtype("<u2" if self.narrow else "<u4")
        self.encoder = make_encoder(
            self.narrow, c_byte_ids, &merges[0, 0] if merges.shape[0] else NULL, merges.shape[0],
            cache_size, not self.gpt2, c_simd_level,
        )
        self.id_size = self.encoder.get().id_size()
        if token_offsets is not None:
            self.table.reset(new CppDecoder(
                &token_data[0] if token_data.shape[0] else NULL, &token_offsets[0],
                token_offsets.shape[0] - 1,
            ))
        self.idle = []

    # ------------------------------------------------------------------ workers

    cdef _Worker acquire(self):
        # Under the GIL, so that no lock is needed, which a fork could leave locked.
        cdef _Worker worker
        if self.idle:
            return self.idle.pop()
        worker = _Worker()
        worker.worker = self.encoder.get().make_worker(0)
        return worker

    def streaming_worker(self, size_t cache_size):
        """Return a worker for `encode` and `encode_words` whose cache takes at most that."""
        cdef _Worker worker = _Worker()
        worker.worker = self.encoder.get().make_worker(cache_size if cache_size else 1)
        return worker

    cdef object release(self, _Worker worker):
        worker.worker.get().output.trim(MAX_KEPT_OUTPUT)
        worker.worker.get().cancelled = False
        self.idle.append(worker)

    # ------------------------------------------------------------------ lists of ids

    def encode(self, text, SpecialSet special not None, _Worker own=None):
        """Return the ids of a text, str or bytes of valid UTF-8, as a list of int.

        Raises:
            AbsentByteError, UnicodeEncodeError (a lone surrogate).
        """
        cdef TextSpan span
        cdef size_t num_ids = 0
        cdef Failure failure
        cdef const uint8_t[::1] found
        kept = view_text(text, &span)
        if span.size >= MOST_UNWATCHED:
            found = self.encode_array(kept, special, 1).view(np.uint8)
            return self.to_list(&found[0], found.shape[0] // self.id_size, own is None)
        cdef _Worker worker = self.acquire() if own is None else own
        try:
            worker.worker.get().output.reserve((span.size + OUTPUT_SLACK) * self.id_size, 0)
            # For a few words it takes longer to give the GIL away than to encode them.
            if span.size < 4096:
                failure = encode_to(worker.worker.get()[0], span, special.special,
                                    worker.worker.get().output.data(), ABSENT_ID, NULL, num_ids)
            else:
                with nogil:
                    failure = encode_to(worker.worker.get()[0], span, special.special,
                                        worker.worker.get().output.data(), ABSENT_ID, NULL, num_ids)
            check(failure)
            return self.to_list(worker.worker.get().output.data(), num_ids, own is None)
        finally:
            if own is None:
                self.release(worker)

    def encode_words(self, words, _Worker own=None):
        """Return the ids of pre-tokens, an iterable of str, as a list of int.

        Raises:
            AbsentByteError: its `item` is the number of the word.
        """
        cdef _Worker worker = self.acquire() if own is None else own
        cdef TextSpan span
        cdef size_t num_ids = 0, used = 0
        cdef Failure failure
        cdef size_t number = 0
        try:
            for word in words:
                kept = view_text(word, &span)
                worker.worker.get().output.reserve(
                    (used + span.size + OUTPUT_SLACK) * self.id_size, used * self.id_size)
                failure = encode_word_to(
                    worker.worker.get()[0], span,
                    worker.worker.get().output.data() + used * self.id_size, num_ids)
                failure.file = number
                check(failure)
                used += num_ids
                number += 1
            return self.to_list(worker.worker.get().output.data(), used, own is None)
        finally:
            if own is None:
                self.release(worker)

    def encode_batch(self, list texts, SpecialSet special not None, int num_workers):
        """Return the ids of texts (as `encode` takes them) as a list of lists."""
        if num_workers == 1:
            return [self.encode(text, special) for text in texts]
        cdef vector[TextSpan] spans
        cdef unique_ptr[BatchEncoder] job
        cdef list workers = []
        cdef vector[EncodingWorker*] pointers
        cdef size_t i
        kept = view_texts(texts, spans)
        try:
            self.run(job, spans, special, num_workers, workers, pointers)
            return [
                self.to_list(job.get().ids(i), job.get().num_ids(i), True)
                for i in range(spans.size())
            ]
        finally:
            # (The results go before the workers are used by others.)
            with nogil:
                job.reset()
            for worker in workers:
                self.release(worker)

    cdef list to_list(self, const void* ids, size_t count, bint keep):
        # `keep`: the ids as objects may be kept for the next time, which takes memory.
        cdef const uint16_t* narrow = <const uint16_t*>ids
        cdef const uint32_t* wide = <const uint32_t*>ids
        cdef list result = PyList_New(count)
        cdef list kept
        cdef PyObject* number
        cdef size_t i
        if self.kept_ids is None and not (keep and self.vocab_size <= MOST_KEPT_IDS):
            for i in range(count):
                if i % MOST_UNWATCHED == 0:
                    PyErr_CheckSignals()
                fresh = <object>(narrow[i] if self.narrow else wide[i])
                Py_INCREF(fresh)
                PyList_SET_ITEM(result, i, fresh)
            return result
        if self.kept_ids is None:
            self.kept_ids = list(range(self.vocab_size))
        kept = self.kept_ids
        if self.narrow:
            for i in range(count):
                if i % MOST_UNWATCHED == 0:
                    PyErr_CheckSignals()
                number = PyList_GET_ITEM(kept, narrow[i])
                Py_INCREF(<object>number)
                PyList_SET_ITEM(result, i, <object>number)
        else:
            for i in range(count):
                if i % MOST_UNWATCHED == 0:
                    PyErr_CheckSignals()
                number = PyList_GET_ITEM(kept, wide[i])
                Py_INCREF(<object>number)
                PyList_SET_ITEM(result, i, <object>number)
        return result

    # ------------------------------------------------------------------ arrays of ids

    def encode_array(self, text, SpecialSet special not None, int num_workers):
        """Return the ids of a text (as `encode` takes it) as an array of `dtype`."""
        cdef TextSpan span
        cdef vector[TextSpan] spans
        cdef size_t longest = 0, i
        kept = view_text(text, &span)
        with nogil:
            spans = cut_text(span, BLOCK_SIZE, special.special, self.gpt2)
        for i in range(spans.size()):
            longest = max(longest, spans[i].size)
        # (This thread does not see Ctrl-C while it encodes a span.)
        if (num_workers <= 1 or spans.size() == 1) and (
                span.size < MOST_DIRECT and longest < MOST_UNWATCHED):
            return self.encode_spans(span, spans, special)
        return self.encode_in_threads(spans, special, num_workers, span.data)[0]

    def encode_documents(self, list texts, SpecialSet special not None, int num_workers):
        """Return the ids of texts, one after the other, and the number of each: two arrays.

        Raises:
            AbsentByteError: its `item` is the number of the text.
        """
        cdef vector[TextSpan] spans
        kept = view_texts(texts, spans)
        return self.encode_in_threads(spans, special, num_workers, NULL)

    cdef encode_spans(self, TextSpan text, vector[TextSpan]& spans, SpecialSet special):
        # Only the memory that is written to is really taken; the rest is given back.
        ids = np.empty(text.size + OUTPUT_SLACK, self.dtype)
        cdef uint8_t[::1] out = ids.view(np.uint8)
        cdef _Worker worker = self.acquire()
        cdef size_t used = 0, num_ids = 0
        cdef size_t i
        cdef Failure failure
        try:
            for i in range(spans.size()):
                with nogil:
                    failure = encode_to(worker.worker.get()[0], spans[i], special.special,
                                        &out[used * self.id_size], ABSENT_ID, NULL, num_ids)
                failure.offset += spans[i].data - text.data
                check(failure)
                used += num_ids
                PyErr_CheckSignals()
        finally:
            self.release(worker)
        out = None
        ids.resize(used, refcheck=False)
        return ids

    cdef encode_in_threads(self, vector[TextSpan]& spans, SpecialSet special, int num_workers,
                           const uint8_t* origin):
        cdef unique_ptr[BatchEncoder] job
        cdef list workers = []
        cdef vector[EncodingWorker*] pointers
        cdef size_t i, total = 0
        cdef uint8_t[::1] out
        cdef int64_t[::1] lengths
        try:
            try:
                self.run(job, spans, special, num_workers, workers, pointers)
            except AbsentByteError as error:
                if origin != NULL:  # parts of one text
                    error.offset += spans[error.item].data - origin
                    error.item = 0
                raise
            counts = np.empty(spans.size() + 1, np.int64)
            lengths = counts
            for i in range(spans.size()):
                lengths[i] = job.get().num_ids(i)
                total += lengths[i]
            ids = np.empty(total + 1, self.dtype)
            out = ids.view(np.uint8)
            with nogil:
                job.get().gather(&out[0])
            return ids[:total], counts[: len(counts) - 1]
        finally:
            with nogil:
                job.reset()
            for worker in workers:
                self.release(worker)

    cdef int run(self, unique_ptr[BatchEncoder]& job, vector[TextSpan]& spans, SpecialSet special,
                 int num_workers, list workers, vector[EncodingWorker*]& pointers) except -1:
        """Encode with threads, wait, and raise what went wrong."""
        cdef cbool done = False
        cdef size_t number = min(<size_t>max(num_workers, 1), max(spans.size(), <size_t>1))
        while <size_t>len(workers) < number:
            workers.append(self.acquire())
            pointers.push_back((<_Worker>workers[len(workers) - 1]).worker.get())
        job.reset(new BatchEncoder(pointers, self.id_size, spans, special.special))
        try:
            job.get().start()
            while not done:
                with nogil:
                    done = job.get().wait(STEP_MILLISECONDS)
                PyErr_CheckSignals()
        except BaseException:
            with nogil:
                job.get().cancel()
            raise
        with nogil:
            job.get().join()
        check(job.get().failure())
        return 0

    # ------------------------------------------------------------------ ids to text

    def decode(self, ids, bint as_text):
        """Return the bytes of ids, a list or an array; or their text, with U+FFFD for bad UTF-8.

        Returns None if it is not sure of the ids: one has no token, or is no plain int.
        """
        cdef const uint16_t[::1] narrow
        cdef const uint32_t[::1] wide
        if self.table.get() == NULL:
            return None
        if isinstance(ids, np.ndarray):
            if ids.ndim != 1 or not ids.flags.c_contiguous or not ids.dtype.isnative:
                return None
            if ids.dtype == np.uint16:
                if len(ids) == 0:
                    return self.decode_array(NULL, True, 0, as_text)
                narrow = ids
                return self.decode_array(&narrow[0], True, narrow.shape[0], as_text)
            if ids.dtype != np.uint32:
                if ids.dtype.kind not in "iu" or (len(ids) and (
                        ids.min() < 0 or ids.max() >= self.vocab_size)):
                    return None
                ids = ids.astype(np.uint32)
        elif type(ids) is list:
            return self.decode_list(ids, as_text)
        else:
            return None
        if len(ids) == 0:
            return self.decode_array(NULL, False, 0, as_text)
        wide = ids
        return self.decode_array(&wide[0], False, wide.shape[0], as_text)

    cdef decode_list(self, list ids, bint as_text):
        # Some at a time, which stay in the first cache.
        cdef const CppDecoder* table = self.table.get()
        cdef uint32_t some[2048]
        cdef size_t count = PyList_GET_SIZE(ids), done = 0, used = 0, added, part, i
        cdef size_t capacity = 5 * count + 64
        cdef char* out = <char*>PyMem_RawMalloc(capacity)
        cdef char* larger
        if out != NULL:
            ask_for_huge_pages(out, capacity)
        try:
            while done < count:
                part = min(count - done, <size_t>2048)
                for i in range(part):
                    some[i] = small_int(PyList_GET_ITEM(ids, done + i))
                added = 0
                # (What is no plain int of 32 bits became the greatest number, which is no id.)
                if table.check(<const uint32_t*>some, part, added) < part:
                    return None
                if out == NULL or used + added + 16 > capacity:
                    capacity = max(2 * capacity, used + added + 16)
                    larger = <char*>PyMem_RawRealloc(out, capacity)
                    if larger == NULL:
                        raise MemoryError(f"there is no memory for {capacity:,} bytes of text")
                    out = larger
                table.write(<const uint32_t*>some, part, <uint8_t*>out + used)
                used += added
                done += part
            if as_text:
                return PyUnicode_DecodeUTF8(out, used, "replace")
            return PyBytes_FromStringAndSize(out, used)
        finally:
            PyMem_RawFree(out)

    cdef decode_array(self, const void* ids, bint narrow, size_t count, bint as_text):
        cdef const CppDecoder* table = self.table.get()
        cdef size_t num_bytes = 0, known
        cdef char* out
        with nogil:
            if narrow:
                known = table.check(<const uint16_t*>ids, count, num_bytes)
            else:
                known = table.check(<const uint32_t*>ids, count, num_bytes)
        if known < count:
            return None
        out = <char*>PyMem_RawMalloc(num_bytes + 16)
        if out == NULL:
            raise MemoryError(f"there is no memory for {num_bytes:,} bytes of text")
        try:
            with nogil:
                if narrow:
                    table.write(<const uint16_t*>ids, count, <uint8_t*>out)
                else:
                    table.write(<const uint32_t*>ids, count, <uint8_t*>out)
            if as_text:
                return PyUnicode_DecodeUTF8(out, num_bytes, "replace")
            return PyBytes_FromStringAndSize(out, num_bytes)
        finally:
            PyMem_RawFree(out)


@cython.final
@cython.no_gc_clear  # what `job` points at must outlive it
cdef class FileEncoding:
    """Encodes files with threads of its own; iterating over it gives their blocks in order.

    A block is `(ids, ends, num_bytes)`: an array of the encoder's dtype, which holds until the next
    block is asked for; the number of ids in this block up to and with each separator, int64; and the
    size of the block for progress. `close` ends what is under way.

    Args:
        encoder: encodes the text.
        paths, sizes: files and their sizes in bytes; what a file holds beyond is not read.
        special: a SpecialSet: no block cuts one of its tokens.
        block_size: bytes.
        num_workers: the number of threads.
        strict: bytes that are not UTF-8 are refused.
        separator: id of a special token at which documents end, or None.

    Raises, where the failing block would come:
        OSError, ValueError: a file cannot be read, became shorter, is not UTF-8.
        AbsentByteError: its `item` is the number of the file.
    """

    cdef Encoder encoder
    cdef SpecialSet special
    cdef list paths, workers
    cdef vector[EncodingWorker*] pointers
    cdef unique_ptr[BlockReader] reader
    cdef unique_ptr[FileEncoder] job
    cdef bint begun, closed

    def __init__(self, Encoder encoder not None, paths, sizes, SpecialSet special not None,
                 size_t block_size, int num_workers, bint strict, separator):
        cdef vector[string] c_paths
        cdef vector[uint64_t] c_sizes
        cdef size_t number
        self.encoder = encoder
        self.special = special
        self.paths = [os.fspath(path) for path in paths]
        self.workers = []
        for path, size in zip(self.paths, sizes, strict=True):
            c_paths.push_back(<string>os.fsencode(path))
            c_sizes.push_back(size)
        self.reader.reset(new BlockReader(
            special.special.tokens, encoder.gpt2, c_paths, c_sizes, block_size))
        number = min(<size_t>max(num_workers, 1), max(self.reader.get().num_blocks(), <size_t>1))
        while <size_t>len(self.workers) < number:
            self.workers.append(encoder.acquire())
            self.pointers.push_back(
                (<_Worker>self.workers[len(self.workers) - 1]).worker.get())
        self.job.reset(new FileEncoder(
            self.reader.get()[0], self.pointers, encoder.id_size, special.special, strict,
            ABSENT_ID if separator is None else separator))
        self.job.get().start()

    def __iter__(self):
        return self

    def __next__(self):
        cdef FileEncoder* job = self.job.get()
        cdef EncodedBlock* block
        cdef cbool ready = False
        cdef int64_t[::1] c_ends
        if self.closed:
            raise StopIteration
        if self.begun:
            job.next()
        self.begun = False
        while not ready:
            with nogil:
                ready = job.wait(STEP_MILLISECONDS)
            PyErr_CheckSignals()
            if self.closed:  # meanwhile
                raise StopIteration
        block = job.block()
        if block == NULL:
            with nogil:
                job.close()
            if job.failure().kind != NONE:
                raise_failure(job.failure(), self.paths)
            raise StopIteration
        self.begun = True
        ids = np.frombuffer(self, self.encoder.dtype)
        ends = np.empty(block.ends.size(), np.int64)
        if block.ends.size():
            c_ends = ends
            memcpy(&c_ends[0], block.ends.data(), block.ends.size() * sizeof(int64_t))
        return ids, ends, block.num_bytes

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        # The ids of the block. Their array keeps this object, so that they may be looked at (by a
        # debugger, after an error) even when nobody encodes any more.
        cdef EncodedBlock* block = self.job.get().block() if self.begun else NULL
        if block == NULL:
            raise BufferError("there is no block")
        PyBuffer_FillInfo(
            buffer, self, block.ids.data(), block.num_ids * self.encoder.id_size, True, flags)

    @property
    def num_encoded(self):
        """The number of blocks that were encoded to their end so far."""
        return self.job.get().num_encoded()

    def close(self):
        """End what is under way. Nothing comes after it."""
        self.closed = True
        with nogil:
            self.job.get().close()
        while self.workers:
            self.encoder.release(self.workers.pop())

    def __dealloc__(self):
        with nogil:
            self.job.reset()


cdef list view_texts(list texts, vector[TextSpan]& spans):
    """Point at the UTF-8 of texts; they live as long as what is returned."""
    cdef TextSpan span
    cdef list kept = []
    spans.reserve(len(texts))
    for text in texts:
        kept.append(view_text(text, &span))
        spans.push_back(span)
    return kept


cdef object view_text(text, TextSpan* span):
    """Point at the UTF-8 of a text; it lives as long as what is returned."""
    if isinstance(text, str):
        # ASCII is UTF-8 already. Other texts are not asked for theirs: they would keep it for good.
        if PyUnicode_IS_ASCII(text):
            span.data = <const uint8_t*>PyUnicode_DATA(text)
            span.size = PyUnicode_GET_LENGTH(text)
            return text
        text = (<str>text).encode()
    span.data = <const uint8_t*>PyBytes_AS_STRING(<bytes>text)
    span.size = PyBytes_GET_SIZE(<bytes>text)
    return text


cdef int check(const Failure& failure) except -1:
    if failure.kind == NONE:
        return 0
    if failure.kind == ABSENT_BYTE:
        raise AbsentByteError(failure.file, failure.offset, failure.code)
    if failure.kind == MEMORY:
        raise MemoryError("there is not enough memory for the ids")
    if failure.kind == SYSTEM:
        raise RuntimeError(f"no thread could be started: {os.strerror(failure.code)}")
    raise RuntimeError(failure.message.decode("utf-8", "replace"))


cdef int raise_failure(const Failure& failure, list paths) except -1:
    if failure.file >= <size_t>len(paths):  # of no file: there is no thread
        return check(failure)
    path = paths[failure.file]
    raise_reading_failure(failure, path)
    if failure.kind == NOT_UTF8:
        raise ValueError(
            f"{path}: byte {failure.code:#04x} at offset {failure.offset:,} is not "
            "valid UTF-8; errors='replace' would read it as U+FFFD"
        )
    return check(failure)
