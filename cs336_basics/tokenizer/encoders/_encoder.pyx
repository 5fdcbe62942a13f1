# distutils: language = c++
"""Binding of encoder.hpp, batch_encoder.hpp and file_encoder.hpp in native/encoding.

Callers check arguments; the binding handles types, memory, threads, signals and the GIL.
`FileEncoding` is in this extension because it shares workers with `Encoder`, and C++ exceptions
cannot be caught portably across shared libraries.
"""

import os

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_CheckSignals
from cpython.list cimport PyList_GET_ITEM, PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF, PyObject
from cpython.unicode cimport PyUnicode_AsUTF8String
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from cs336_basics._support.simd_levels cimport SimdLevel, simd_level_of
from cs336_basics.splitting.scanners cimport Scanner, make_scanner
from cs336_basics.text.failures cimport LONE_SURROGATE, Failure, raise_failure

from cs336_basics.text.text_views cimport (
    UTF8, TextSpan, TextView, as_utf8, utf8_bound, view_text, view_texts,
)

from cs336_basics.tokenizer._usual_calls cimport Rest, UsualCalls
from cs336_basics.tokenizer._vocabulary cimport CppWords, Words
from cs336_basics.tokenizer.encoders._decoder cimport Decoder
from cs336_basics.tokenizer.encoders.arrays cimport array_of, elements_of, new_array

from cs336_basics._support.lazy import np
from cs336_basics.splitting.splitter import has_scanner


cdef extern from "Python.h":
    void PyObject_GC_Track(void* container)
    void PyObject_GC_UnTrack(void* container)

ctypedef fused id_t:
    uint16_t
    uint32_t

# Time between two checks for Ctrl-C while the main thread waits.
cdef int STEP_MILLISECONDS = 50

# Bytes of text to encode at a time. The main thread checks for Ctrl-C between spans.
cdef size_t SPAN_SIZE = 1 << 19

# Span size for text that must be converted to UTF-8. The converted text stays in the L2 cache.
cdef size_t CONVERTED_SPAN_SIZE = 1 << 16

# The array size for a batch is estimated from the first 1 / ESTIMATED_PARTS of its texts, and for a
# long text from its first span. Unused space costs almost nothing, while an array that is too small
# must be copied to a larger one.
cdef size_t ESTIMATED_PARTS = 16
cdef double MORE_THAN_ESTIMATED = 1.25

# Maximum number of bytes or ids to process between two checks for Ctrl-C. Processing them takes a
# few hundredths of a second, or up to 0.7 seconds for a single long word.
cdef size_t MAX_UNINTERRUPTED = 1 << 24

# Shorter texts are encoded without releasing the GIL, because releasing it costs too much time.
cdef size_t MIN_WITHOUT_GIL = 4096

# Up to this vocabulary size, the ids are kept as Python objects, so that building a list of ids
# only increments reference counts.
cdef size_t MAX_KEPT_IDS = 1 << 20


cdef class SpecialSet:
    """Special tokens to cut out of texts, and their ids: `SpecialSet([(token, id), ...])`."""

    cdef SpecialIds special
    cdef size_t size  # the highest id plus one

    def __cinit__(self, tokens_and_ids):
        cdef vector[string] tokens
        # SpecialTokens expects the longest token first.
        pairs = sorted(
            ((token.encode(), token_id) for token, token_id in tokens_and_ids),
            key=lambda pair: len(pair[0]), reverse=True,
        )
        for token, token_id in pairs:
            tokens.push_back(<string>token)
            self.special.ids.push_back(token_id)
            self.size = max(self.size, <size_t>self.special.ids.back() + 1)
        self.special.tokens = SpecialTokens(tokens)


@cython.final
cdef class WordDropout:
    """BPE-dropout of several texts or pre-tokens; see `tokenizer/dropout.py`.

    Args:
        state: State of the seed.
        shares: `Dropout.shares`.
        places: (document, offset in bytes) of each text or pre-token.
    """

    cdef BatchDropout dropout

    def __cinit__(self, uint64_t state, list shares not None, list places not None):
        if len(shares) != MAX_GAP + 1:
            raise ValueError(f"there must be {MAX_GAP + 1} shares, not {len(shares)}")
        self.dropout.state = state
        self.dropout.shares = shares
        self.dropout.all = shares[1] == 0
        for document, offset in places:
            self.dropout.documents.push_back(document)
            self.dropout.offsets.push_back(offset)


@cython.final
cdef class Worker:
    """State of one encoding thread, mainly its word cache."""

    cdef unique_ptr[EncodingWorker] worker
    cdef CppEncoder* encoder  # to recognize it
    cdef bint busy

    def __cinit__(self, Encoder encoder not None, size_t cache_size):
        self.encoder = encoder.encoder.get()
        self.worker = encoder.encoder.get().make_worker(cache_size)


cdef class Encoder:
    """A compiled vocabulary for encoding.

    Args:
        byte_ids: Id of each of the 256 bytes.
        words: Tokens and merges.
        vocab_size: Highest id plus one.
        pattern: Split pattern. If it has no scanner, only `encode_words` can be called.
        cache_size: Bytes of memory for cached words, shared by all threads.
        simd_level: Name in `_scanner.simd_levels()`. Defaults to `default_simd_level()`.
        merged_only: Ids of the tokens that only merges make. A pre-token that equals another token
            becomes that token without merging. Defaults to all tokens.

    Attributes:
        dtype: Dtype of id arrays: uint16, or uint32 if there are ids of 65,536 or more.
    """

    cdef unique_ptr[CppEncoder] encoder
    cdef Words words       # the encoder reads them
    cdef list idle         # idle workers
    cdef list id_objects   # int object of each id; None until some ids were listed
    cdef size_t num_listed
    cdef Scanner scanner
    cdef bint narrow
    cdef size_t id_size, vocab_size
    cdef int type_number   # of `dtype`

    def __cinit__(self, byte_ids, Words words not None, size_t vocab_size, pattern,
                  size_t cache_size, simd_level=None, merged_only=None):
        cdef WholeWords whole_words
        cdef vector[Join] joins
        cdef const CppWords* c_words = words.words.get()
        cdef const vector[uint32_t]* merges = &c_words.merges()
        cdef size_t rank, token
        cdef uint32_t c_byte_ids[256]
        cdef int i
        cdef SimdLevel c_simd_level = simd_level_of(simd_level)
        if c_words.size() > vocab_size:
            raise ValueError(f"the ids of words must be below {vocab_size}")
        if len(byte_ids) != 256:
            raise ValueError(f"byte_ids must have 256 ids, got {len(byte_ids)}")
        for i in range(256):
            c_byte_ids[i] = byte_ids[i]
            if c_byte_ids[i] >= vocab_size and c_byte_ids[i] != NO_ID:
                raise ValueError(f"byte_ids[{i}] must be below {vocab_size}")
        joins.reserve(merges.size() // 3)
        for rank in range(merges.size() // 3):
            joins.push_back(join_of(c_words.token_of(merges[0][3 * rank]),
                                    c_words.token_of(merges[0][3 * rank + 1])))
        if has_scanner(pattern):
            self.scanner = make_scanner(pattern, c_simd_level)
        self.vocab_size = vocab_size
        self.narrow = vocab_size <= 1 << 16
        # The numbers of uint16 and uint32 are part of NumPy's ABI. Lists of ids do not need NumPy.
        self.id_size, self.type_number = (2, 4) if self.narrow else (4, 6)
        if merged_only is not None:
            for token in range(c_words.num_tokens()):
                if c_words.id(token) not in merged_only:
                    whole_words.push_back(WholeWord(c_words.token(token), c_words.id(token)))
        self.encoder = make_encoder(
            self.narrow, c_byte_ids, merges.data(), joins, cache_size, self.scanner, c_simd_level,
            whole_words, c_words,
        )
        self.words = words
        self.idle = []

    @property
    def dtype(self):
        return np.dtype("<u2" if self.narrow else "<u4")

    # ------------------------------------------------------------------ workers

    cdef Worker acquire(self):
        # The GIL protects the list. A separate lock could stay locked after a fork.
        return self.idle.pop() if self.idle else Worker(self, 0)

    cdef list acquire_all(self, size_t number, vector[EncodingWorker*]& pointers):
        cdef list workers = []
        cdef Worker worker
        while <size_t>len(workers) < number:
            worker = self.acquire()
            workers.append(worker)
            pointers.push_back(worker.worker.get())
        return workers

    cdef EncodingWorker* at_hand(self) except NULL:
        """Return a worker for use until another thread or other Python code can run."""
        if not self.idle:
            self.release(self.acquire())
        return (<Worker>PyList_GET_ITEM(self.idle, 0)).worker.get()

    cdef int check(self, SpecialSet special, Worker worker) except -1:
        """Raise an error if an id has no room in lists, or the worker cannot be used."""
        if special is not None and special.size > self.vocab_size:
            raise ValueError(f"the ids of special tokens must be below {self.vocab_size}")
        if worker is not None and worker.encoder != self.encoder.get():
            raise ValueError("the worker belongs to another encoder")
        if worker is not None and worker.busy:
            raise RuntimeError("a worker can be used by one thread at a time")
        return 0

    cdef object release(self, Worker worker):
        worker.worker.get().trim()
        self.idle.append(worker)

    def streaming_worker(self, size_t cache_size):
        """Return a worker for `encode` and `encode_words`, with a cache of `cache_size` bytes."""
        return Worker(self, cache_size if cache_size else 1)

    def grow(self, size_t vocab_size):
        """Allow ids below `vocab_size` in special sets. Return False if `dtype` is too narrow."""
        if self.narrow and vocab_size > 1 << 16:
            return False
        if vocab_size > self.vocab_size:
            if self.id_objects is not None:
                if vocab_size <= MAX_KEPT_IDS:
                    self.id_objects.extend(range(self.vocab_size, vocab_size))
                else:
                    self.id_objects = None
            self.vocab_size = vocab_size
        return True

    # ------------------------------------------------------------------ lists of ids

    def encode(self, text, SpecialSet special not None, Worker worker=None):
        """Return the ids of a text (str or valid UTF-8 bytes) as a list of int.

        Raises:
            UnicodeEncodeError: If the text contains a lone surrogate.
        """
        cdef TextView view = view_text(text)
        cdef size_t num_ids = 0
        cdef Failure failure
        cdef const uint8_t[::1] found
        cdef Worker used = worker
        self.check(special, worker)
        if view.length >= MAX_UNINTERRUPTED:
            found = self.encode_array(text, special, 1).view(np.uint8)
            return self.to_list(&found[0], found.shape[0] // self.id_size, worker is None)
        if worker is None:
            used = self.acquire()
        cdef EncodingWorker* cpp_worker = used.worker.get()
        used.busy = True
        try:
            if view.length < MIN_WITHOUT_GIL:
                failure = encode_text(
                    cpp_worker[0], view, special.special, self.id_size, 0, num_ids)
            else:
                with nogil:
                    failure = encode_text(
                        cpp_worker[0], view, special.special, self.id_size, 0, num_ids)
            check(failure, text)
            return self.to_list(cpp_worker.output.data(), num_ids, worker is None)
        finally:
            used.busy = False
            if worker is None:
                self.release(used)

    cdef list list_of_text(self, text, SpecialSet special):
        """Like `encode`, and faster for a short text."""
        cdef uint32_t ids[MAX_SHORT_TEXT + OUTPUT_SLACK]
        cdef size_t num_ids = 0
        cdef TextView view = view_text(text)
        cdef list result
        if (
            utf8_bound(view) > MAX_SHORT_TEXT or self.id_objects is None
            or not encode_short_text(self.at_hand()[0], view, special.special, ids, num_ids)
        ):
            return self.encode(text, special)
        result = PyList_New(num_ids)
        if self.narrow:
            set_items(result, <const uint16_t*>ids, 0, num_ids, self.id_objects)
        else:
            set_items(result, <const uint32_t*>ids, 0, num_ids, self.id_objects)
        return result

    def encode_words(self, words, Worker worker=None):
        """Return the ids of pre-tokens (an iterable of str) as a list of int.

        Raises:
            UnicodeEncodeError: See `encode`.
        """
        return self.list_of_words(words, worker, NULL)

    def drop_words(self, words, WordDropout dropout not None):
        """Return the ids of the pre-tokens (an iterable of str) of a document, with dropout.

        There is one place for each pre-token.

        Raises:
            UnicodeEncodeError: See `encode`.
        """
        return self.list_of_words(words, None, &dropout.dropout)

    cdef list list_of_words(self, words, Worker worker, BatchDropout* dropout):
        self.check(None, worker)
        cdef Worker used = self.acquire() if worker is None else worker
        cdef EncodingWorker* cpp_worker = used.worker.get()
        cdef TextSpan span
        cdef size_t total = 0, i = 0
        cdef uint8_t* out
        cdef Failure failure
        used.busy = True
        try:
            for word in words:
                failure = as_utf8(view_text(word), cpp_worker.text, span)
                check(failure, word)
                cpp_worker.output.reserve(
                    (total + span.size + OUTPUT_SLACK) * self.id_size, total * self.id_size)
                out = cpp_worker.output.data() + total * self.id_size
                if dropout == NULL:
                    total += cpp_worker.encode_word(
                        span.data, span.size, span.data + span.size, out)
                    continue
                if i >= dropout.documents.size():
                    raise ValueError("there must be one place for each pre-token")
                total += cpp_worker.drop_word(
                    span.data, span.size, dropout.of_text(i), dropout.offsets[i], out)
                i += 1
            return self.to_list(cpp_worker.output.data(), total, worker is None)
        finally:
            used.busy = False
            if worker is None:
                self.release(used)

    def encode_batch(self, list texts, SpecialSet special not None, int num_workers):
        """Return the ids of each text, as a list of lists.

        Raises:
            UnicodeEncodeError: See `encode`.
        """
        cdef list lists = []
        cdef vector[TextView] views
        cdef unique_ptr[BatchEncoder] job
        cdef vector[EncodingWorker*] pointers
        cdef const uint8_t* data
        cdef size_t group, i
        self.check(special, None)
        if num_workers == 1:
            for text in texts:
                lists.append(untracked(self.list_of_text(text, special)))
            return tracked(lists)
        view_texts(texts, views)
        workers = self.acquire_all(num_threads(num_workers, views.size()), pointers)
        try:
            job.reset(new BatchEncoder(pointers, self.id_size, views, special.special, NULL))
            job.get().start()
            # This thread builds the lists for a group while other threads encode the next groups.
            for group in range(job.get().num_groups()):
                wait_group(job.get(), group, texts)
                data = job.get().ids(group)
                for i in range(job.get().group_start(group), job.get().group_start(group + 1)):
                    lists.append(untracked(self.to_list(data, job.get().num_ids(i), True)))
                    data += job.get().num_ids(i) * self.id_size
                job.get().free(group)
            return tracked(lists)
        finally:
            # After an error, threads may still run. End them before other calls use the workers.
            with nogil:
                job.reset()
            for worker in workers:
                self.release(worker)

    cdef list to_list(self, const void* ids, size_t count, bint keep):
        """Return ids as a list of int. If `keep` is true, keep the int objects for later calls."""
        if self.id_objects is None and keep and self.vocab_size <= MAX_KEPT_IDS:
            # The first call of a process is faster without them.
            self.num_listed += count
            if self.num_listed > self.vocab_size // 64:
                self.id_objects = list(range(self.vocab_size))
        if self.narrow:
            return list_of(<const uint16_t*>ids, count, self.id_objects)
        return list_of(<const uint32_t*>ids, count, self.id_objects)

    # ------------------------------------------------------------------ arrays of ids

    def encode_array(self, text, SpecialSet special not None, int num_workers):
        """Return the ids of a text as an array of `dtype`.

        Raises:
            UnicodeEncodeError: See `encode`.
        """
        cdef TextView view = view_text(text), span
        cdef size_t span_size = SPAN_SIZE if view.kind == UTF8 else CONVERTED_SPAN_SIZE
        if view.length <= span_size:
            return self.encode_copied(text, view, special)
        cdef vector[TextView] spans
        cdef bint in_threads = num_workers > 1 and view.length > SPAN_SIZE
        with nogil:
            spans = cut_text(view, span_size, special.special.tokens, self.scanner)
        for span in spans:
            in_threads |= utf8_bound(span) >= MAX_UNINTERRUPTED
        if not in_threads:
            return self.encode_spans(text, spans, special)
        return self.encode_in_threads(text, spans, special, num_workers, NULL)[0]

    def encode_documents(self, list texts, SpecialSet special not None, int num_workers):
        """Return two arrays: the concatenated ids of the texts, and the number of ids of each text.

        Raises:
            UnicodeEncodeError: See `encode`.
        """
        cdef vector[TextView] views
        view_texts(texts, views)
        return self.encode_in_threads(texts, views, special, num_workers, NULL)

    def encode_dropped(
        self, list texts, SpecialSet special not None, int num_workers, WordDropout dropout not None
    ):
        """Like `encode_documents`, with dropout. There is one place for each text.

        Raises:
            UnicodeEncodeError: See `encode`.
        """
        cdef vector[TextView] views
        view_texts(texts, views)
        if dropout.dropout.documents.size() != views.size():
            raise ValueError("there must be one place for each text")
        return self.encode_in_threads(texts, views, special, num_workers, &dropout.dropout)

    cdef size_t encode_in_worker(
        self, Worker worker, text, TextView view, SpecialSet special
    ) except? 0:
        """Write the ids of a part of `text` to a worker's output and return their number."""
        cdef EncodingWorker* cpp_worker = worker.worker.get()
        cdef size_t num_ids = 0
        cdef Failure failure
        if view.length < MIN_WITHOUT_GIL:
            failure = encode_text(cpp_worker[0], view, special.special, self.id_size, 0, num_ids)
        else:
            with nogil:
                failure = encode_text(
                    cpp_worker[0], view, special.special, self.id_size, 0, num_ids)
        check(failure, text)
        return num_ids

    cdef encode_copied(self, text, TextView view, SpecialSet special):
        """Return the ids of a text, which are copied from a worker to an array of their size."""
        cdef Worker worker = self.acquire()
        cdef size_t num_ids
        try:
            num_ids = self.encode_in_worker(worker, text, view, special)
            return array_of(
                worker.worker.get().output.data(), num_ids, self.type_number, self.id_size)
        finally:
            self.release(worker)

    cdef encode_spans(self, text, vector[TextView]& spans, SpecialSet special):
        """Return the ids of a text, which is encoded span by span in this thread."""
        # An array with room for one id per byte would be so large that every call gets new memory
        # for it, and page faults would take an eighth of the time. So estimate its size.
        cdef Worker worker = self.acquire()
        cdef TextView view
        cdef size_t num_ids, total = 0, room = 0, encoded = 0, length = 0
        for view in spans:
            length += view.length
        ids = new_array(0, self.type_number)
        try:
            for view in spans:
                num_ids = self.encode_in_worker(worker, text, view, special)
                encoded += view.length
                if total + num_ids > room:
                    room = total + num_ids + <size_t>(
                        MORE_THAN_ESTIMATED * (total + num_ids) / encoded * (length - encoded))
                    larger = new_array(room, self.type_number)
                    memcpy(elements_of(larger), elements_of(ids), total * self.id_size)
                    ids = larger
                memcpy(<char*>elements_of(ids) + total * self.id_size,
                       worker.worker.get().output.data(), num_ids * self.id_size)
                total += num_ids
                PyErr_CheckSignals()
        finally:
            self.release(worker)
        larger = None
        ids.resize(total, refcheck=False)
        return ids

    cdef encode_in_threads(
        self, texts, vector[TextView]& views, SpecialSet special, int num_workers,
        const BatchDropout* dropout
    ):
        cdef unique_ptr[BatchEncoder] job
        cdef vector[EncodingWorker*] pointers
        cdef size_t i, group, sample, room = 0, total = 0
        cdef uint8_t[::1] out
        cdef int64_t[::1] lengths
        cdef cbool done = False
        workers = self.acquire_all(num_threads(num_workers, views.size()), pointers)
        try:
            job.reset(new BatchEncoder(pointers, self.id_size, views, special.special, dropout))
            job.get().start()
            if views.size():
                # Estimate the size of the array from the first texts.
                sample = job.get().num_groups() // ESTIMATED_PARTS
                for group in range(sample + 1):
                    wait_group(job.get(), group, texts)
                room = <size_t>(MORE_THAN_ESTIMATED * job.get().estimate(sample))
            ids = np.empty(room + 1, self.dtype)
            out = ids.view(np.uint8)
            with nogil:
                job.get().write_to(&out[0], room)
            while not done:
                with nogil:
                    done = job.get().wait(STEP_MILLISECONDS)
                PyErr_CheckSignals()
            with nogil:
                job.get().join()
            check(job.get().failure(), texts)
            counts = np.empty(views.size() + 1, np.int64)
            lengths = counts
            for i in range(views.size()):
                lengths[i] = job.get().num_ids(i)
                total += lengths[i]
            out = None
            ids.resize(total + 1, refcheck=False)
            out = ids.view(np.uint8)
            with nogil:
                job.get().write_to(&out[0], total)
            return ids[:total], counts[: len(counts) - 1]
        finally:
            # After an error, threads may still run. End them before other calls use the workers and
            # before the array is freed.
            with nogil:
                job.reset()
            for worker in workers:
                self.release(worker)


@cython.final
cdef class CompiledCalls(UsualCalls):
    """The usual calls of a tokenizer.

    Args:
        encoder: Encoder of the tokenizer.
        special: SpecialSet of all added tokens, or None to decline texts.

    Attributes:
        decoder: Decoder of the tokenizer, or None to decline ids.
    """

    cdef Encoder encoder
    cdef SpecialSet special
    cdef public Decoder decoder

    def __cinit__(self, Encoder encoder not None, SpecialSet special):
        encoder.check(special, None)
        self.encoder = encoder
        self.special = special

    cdef list encode(self, str text):
        if self.special is None:
            return None
        try:
            return self.encoder.list_of_text(text, self.special)
        except UnicodeEncodeError:
            return None

    cdef object encode_array(self, str text):
        cdef uint32_t ids[MAX_SHORT_TEXT + OUTPUT_SLACK]
        cdef size_t num_ids = 0
        cdef TextView view
        if self.special is None:
            return None
        view = view_text(text)
        if utf8_bound(view) > MAX_SHORT_TEXT:
            try:
                return self.encoder.encode_array(text, self.special, 1)
            except UnicodeEncodeError:
                return None
        if not encode_short_text(
            self.encoder.at_hand()[0], view, self.special.special, ids, num_ids
        ):
            return None
        return array_of(ids, num_ids, self.encoder.type_number, self.encoder.id_size)

    cdef object decode(self, object ids, bint as_text):
        if self.decoder is None:
            return None
        if type(ids) is list:
            text = self.decoder.decode_short(<list>ids, as_text)
            if text is not None:
                return text
        return self.decoder.decode(ids, as_text)

    cdef object push(self, bytes waiting, object token_id, Rest* rest):
        return None if self.decoder is None else self.decoder.push(waiting, token_id, rest)


@cython.final
@cython.no_gc_clear  # `job` points to other attributes, which must outlive it
cdef class FileEncoding:
    """Encodes files in its own threads and iterates over their blocks in order.

    A block is a tuple `(file, ids, ends, num_bytes, replaced)`: the index of the file; an array of
    ids, valid until the next block is requested; an int64 array with the position after each
    separator; the size of the block's text; and `(sequences, bytes, offset)`, the number of invalid
    UTF-8 sequences that were replaced, the number of bytes in them, and the offset of the first one
    in the file. `close` stops the threads.

    Args:
        encoder: Encoder for the text.
        paths, sizes: Files and the number of bytes to read from each.
        special: SpecialSet, whose tokens are never split between blocks.
        block_size: Bytes of text in a block.
        num_workers: Number of threads.
        errors: How to handle invalid UTF-8: "replace", "strict" or "bytes".
        separator: Id of a special token that ends documents, or None.
        max_piece_bytes: Maximum number of bytes between safe cuts.

    Raises:
        ValueError: If `block_size` is not from 1 to 2^48.

    Raises, instead of yielding the failing block:
        OSError, ValueError: If a file cannot be read, shrinks while it is read, or is not UTF-8.
    """

    cdef Encoder encoder
    cdef SpecialSet special
    cdef list paths, workers
    cdef vector[EncodingWorker*] pointers
    cdef unique_ptr[BlockReader] reader
    cdef unique_ptr[FileEncoder] job
    cdef bint begun, closed, busy

    def __cinit__(self, Encoder encoder not None, paths, sizes, SpecialSet special not None,
                  size_t block_size, int num_workers, errors, separator, max_piece_bytes):
        cdef vector[string] c_paths
        cdef vector[uint64_t] c_sizes
        cdef InvalidBytes invalid_bytes = InvalidBytes.REPLACE
        if errors != "replace":
            invalid_bytes = InvalidBytes.REFUSE if errors == "strict" else InvalidBytes.KEEP
        self.encoder = encoder
        self.special = special
        self.paths = [os.fspath(path) for path in paths]
        for path, size in zip(self.paths, sizes, strict=True):
            c_paths.push_back(<string>os.fsencode(path))
            c_sizes.push_back(size)
        self.reader.reset(new BlockReader(
            special.special.tokens, encoder.scanner, c_paths, c_sizes, block_size,
            min(max_piece_bytes, 1 << 62)))
        self.workers = encoder.acquire_all(
            num_threads(num_workers, self.reader.get().num_blocks()), self.pointers)
        self.job.reset(new FileEncoder(
            self.reader.get()[0], self.pointers, encoder.id_size, special.special, invalid_bytes,
            NO_ID if separator is None else separator))
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
        if self.busy:
            raise ValueError("another thread is waiting for a block")
        if self.begun:
            job.next()
        self.begun = False
        self.busy = True
        try:
            while not ready:
                with nogil:
                    ready = job.wait(STEP_MILLISECONDS)
                PyErr_CheckSignals()
                if self.closed:  # closed by another thread
                    raise StopIteration
        finally:
            self.busy = False
        block = job.block()
        if block == NULL:
            with nogil:
                job.close()
            check(job.failure(), None, self.paths)
            raise StopIteration
        self.begun = True
        ids = np.frombuffer(self, self.encoder.dtype)
        ends = np.empty(block.ends.size(), np.int64)
        if block.ends.size():
            c_ends = ends
            memcpy(&c_ends[0], block.ends.data(), block.ends.size() * sizeof(int64_t))
        replaced = block.replaced.sequences, block.replaced.bytes, block.replaced.first
        return block.file, ids, ends, block.num_bytes, replaced

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        # The buffer contains the ids of the block. The array of ids keeps this object alive, so
        # that the ids can be read even after `close`, for example by a debugger after an error.
        cdef EncodedBlock* block = self.job.get().block() if self.begun else NULL
        if block == NULL:
            raise BufferError("there is no block")
        PyBuffer_FillInfo(
            buffer, self, block.ids.data(), block.num_ids * self.encoder.id_size, True, flags)

    def close(self):
        """Stop the threads and end the iteration."""
        self.closed = True
        with nogil:
            self.job.get().close()
        while self.workers:
            self.encoder.release(self.workers.pop())

    def __dealloc__(self):
        # This ends the threads. The GIL is released because a thread may be waiting for a slow
        # disk.
        with nogil:
            self.job.reset()


cdef int wait_group(BatchEncoder* job, size_t group, texts) except -1:
    """Wait until a group of texts is encoded, or raise the error of the job."""
    cdef cbool done = False, ended
    while not done:
        with nogil:
            done = job.wait_group(group, STEP_MILLISECONDS)
            ended = not done and job.wait(0)
        PyErr_CheckSignals()
        if ended:
            with nogil:
                job.join()
            check(job.failure(), texts)
            return 0
    return 0


cdef size_t num_threads(int num_workers, size_t num_items) noexcept:
    return min(<size_t>max(num_workers, 1), max(num_items, <size_t>1))


cdef list list_of(const id_t* ids, size_t count, list objects):
    """Return ids as a list of int; `objects` contains the int object of each id, or is None."""
    cdef list result = PyList_New(count)
    cdef size_t start, stop, i
    # Signal handlers and, since Python 3.12, the garbage collector can run between two parts. They
    # must not find the incomplete list through gc.get_objects.
    PyObject_GC_UnTrack(<void*>result)
    for start in range(0, count, MAX_UNINTERRUPTED):
        PyErr_CheckSignals()
        stop = min(count, start + MAX_UNINTERRUPTED)
        if objects is None:
            for i in range(start, stop):
                new = <object>ids[i]
                Py_INCREF(new)
                PyList_SET_ITEM(result, i, new)
        else:
            set_items(result, ids, start, stop, objects)
    PyObject_GC_Track(<void*>result)
    return result


cdef inline void set_items(list result, const id_t* ids, size_t start, size_t stop, list objects):
    """Set some items of a new list. No other code runs at the same time."""
    cdef PyObject* item
    cdef size_t i
    for i in range(start, stop):
        item = PyList_GET_ITEM(objects, ids[i])
        Py_INCREF(<object>item)
        PyList_SET_ITEM(result, i, <object>item)


# The lists of a batch are hidden from the garbage collector until all of them are built. Otherwise,
# the collector would traverse the new lists each time a few hundred have been built, which takes as
# long as building them. Lists of ids cannot be part of a cycle before the caller receives them.

cdef list untracked(list ids):
    PyObject_GC_UnTrack(<void*>ids)
    return ids


cdef list tracked(list lists):
    for ids in lists:
        PyObject_GC_Track(<void*>ids)
    return lists


cdef int check(const Failure& failure, texts=None, paths=()) except -1:
    """Raise the exception for a failure to encode texts (a list, or a single text) or files."""
    if failure.kind == LONE_SURROGATE:
        # Raise UnicodeEncodeError. A subclass of str could override `encode`, but not this
        # conversion.
        PyUnicode_AsUTF8String(texts[failure.file] if isinstance(texts, list) else texts)
    return raise_failure(failure, paths, "ids")
