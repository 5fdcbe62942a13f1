"""Version 5, native: a merge loop in C++ on flat arrays.

Unlike in v4, positions are not linked, and pairs that are too rare to be merged are not stored. The
algorithm is in `native/merging/flat_merge_loop.hpp`. This file passes the counted words to the loop
as arrays, and runs the loop for a tenth of a second at a time so that Ctrl-C and the progress bar
respond quickly.

Cost per merge: O(occurrences of the pair). Most of these are close together in memory. Main
drawback: the code is hard to change; read v1 to v4 first.
"""

from array import array

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.pair cimport pair
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector

from cs336_basics._support.errors import InputError
from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.drawing import bands, pair_text, symbol_text, table
from cs336_basics.bpe.reference import NUM_BYTES
from cs336_basics.bpe.trace import Work
from cs336_basics.execution.workers import resolve_num_workers

cdef extern from "merging/flat_merge_loop.hpp" namespace "cs336" nogil:
    cdef cppclass MergeOptions:
        int64_t num_merges
        int64_t min_frequency
        int (*refuse)(void*, const string&, const string&, int64_t) except -1
        void* rules
        const uint8_t* byte_ranks
        cbool (*keep_going)() noexcept
        cbool traced
        vector[uint32_t] start_merges
        vector[string] start_tokens
        size_t num_threads

    cdef struct CMergeTrace "cs336::MergeTrace":
        int64_t count
        int64_t occurrences
        int64_t positions
        int64_t pairs_updated
        int64_t heap_entries
        double seconds_counting
        double seconds_finding
        double seconds_updating

    cdef cppclass CMergeLoop "cs336::MergeLoop":
        cbool run(double seconds) except +
        vector[pair[uint32_t, uint32_t]] merges
        vector[CMergeTrace] trace
        double seconds_counting
        double seconds_finding
        double seconds_updating

    unique_ptr[CMergeLoop] make_merge_loop(
        const uint8_t* data, const int64_t* offsets, const int64_t* counts, int64_t num_words,
        const MergeOptions& options) except +

    # The loop with its data, for a drawing.
    cdef struct CPair "cs336::Pair":
        int64_t count
        uint32_t left
        uint32_t right
        uint32_t* postings
        uint32_t num_postings

    cdef cppclass CPairTable "cs336::PairTable":
        size_t size()
        const CPair& operator[](size_t id)

    cdef cppclass CWordCells "cs336::WordCells<uint16_t>":
        size_t size()
        const uint16_t* data()

    cdef cppclass CFlatMergeLoop "cs336::FlatMergeLoop<uint16_t>"(CMergeLoop):
        CFlatMergeLoop(const uint8_t* data, const int64_t* offsets, const int64_t* counts,
                       int64_t num_words, const MergeOptions& options) except +
        int64_t threshold()
        const CWordCells& cells()
        const CPairTable& pairs()

cdef extern from "merging/parity_merge_loop.hpp" namespace "cs336" nogil:
    cdef cppclass ParityOptions:
        vector[int64_t] first_words, sizes, lengths
        int64_t window, most_in_window, global_merges

    cdef cppclass CParityMergeLoop "cs336::ParityMergeLoop"(CMergeLoop):
        CParityMergeLoop(const uint8_t* data, const int64_t* offsets, const int64_t* counts,
                         const MergeOptions& options, const ParityOptions& parity) except +
        vector[int32_t] served

cdef extern from "Python.h":
    # Declared without `except`: the exception is raised after the merge loop has returned.
    int PyErr_CheckSignals()


cdef cbool keep_going() noexcept with gil:
    """Run signal handlers, such as the one for Ctrl-C. Return False if one raised an exception."""
    return PyErr_CheckSignals() == 0


cdef int refuse(void* rules, const string& left, const string& right,
                int64_t count) except -1 with gil:
    """Return whether the rules refuse a pair."""
    cdef bytes first = left, second = right
    return (<object>rules).refuse((first, second), count)


class NativeTrainer(BPE_Trainer):
    """Runs the merge loop in C++.

    Attributes:
        step_seconds: Seconds between updates of the progress bar and checks for Ctrl-C.
    """

    name = "native"
    work_units = {}
    read_unit = "occurrence"
    step_seconds = 0.1

    def learn_merges(self, word_counts, rules, recorder):
        cdef const uint8_t[::1] data
        cdef const int64_t[::1] offsets, counts
        data, offsets, counts = word_counts.buffers
        # Every merge removes at least one symbol, so there are fewer merges than bytes.
        cdef int64_t num_merges = min(rules.num_merges, data.shape[0])
        if not num_merges:
            return [], []
        cdef MergeOptions options
        cdef const uint8_t[::1] byte_ranks = rules.byte_ranks
        cdef unique_ptr[CMergeLoop] loop
        options.num_merges = num_merges
        options.min_frequency = rules.min_frequency
        if rules.limits:
            options.refuse = refuse
            options.rules = <void*>rules
        if byte_ranks is not None:
            options.byte_ranks = &byte_ranks[0]
        options.keep_going = keep_going
        options.num_threads = resolve_num_workers(self.num_workers)
        options.traced = recorder.trace is not None
        options.start_merges = rules.start.merge_ids()
        options.start_tokens = rules.start.symbols[NUM_BYTES:]
        try:
            with nogil:
                loop = move(make_merge_loop(&data[0], &offsets[0], &counts[0],
                                            counts.shape[0], options))
        except OverflowError as error:  # too many bytes in the words
            raise InputError(str(error)) from None
        recorder.lap("setting up words")
        return run_loop(loop.get(), self.step_seconds, rules.start.symbols, recorder)

    def learn_parity(self, words, rules, parity, recorder):
        """See `BPE_Trainer`."""
        cdef MergeOptions options
        cdef ParityOptions c_parity
        cdef unique_ptr[CParityMergeLoop] loop
        cdef const int64_t[::1] offsets, counts
        cdef list symbols = list(rules.start.symbols), every = [*words.train, *words.dev]
        cdef bytes data = b"".join(bytes(part.buffers[0]) for part in every)
        all_offsets, all_counts = array("q", [0]), array("q")
        first = 0
        for part in every:
            c_parity.first_words.push_back(len(all_counts))
            all_offsets.extend(first + offset for offset in memoryview(part.buffers[1])[1:])
            all_counts.extend(memoryview(part.buffers[2]))
            first += len(part.buffers[0])
        c_parity.first_words.push_back(len(all_counts))
        c_parity.sizes = words.sizes(parity.unit)
        c_parity.lengths = [part.num_bytes for part in words.dev]
        c_parity.window = parity.window or 0
        c_parity.most_in_window = parity.most_in_window(len(words.train))
        c_parity.global_merges = parity.global_merges
        # Like the characters of Hugging Face's tokens, the ranks of the bytes compare as integers.
        cdef bytes table = rules.byte_ranks
        back = None
        merge_ids, start_tokens = rules.start.merge_ids(), symbols[NUM_BYTES:]
        if table is not None:
            back = bytes(map(table.index, range(NUM_BYTES)))
            data = data.translate(table)
            merge_ids = [table[i] if i < NUM_BYTES else i for i in merge_ids]
            start_tokens = [token.translate(table) for token in start_tokens]
            symbols = [symbols[back[i]] for i in range(NUM_BYTES)] + symbols[NUM_BYTES:]
        asked = rules if back is None else _Translated(rules, back)
        options.num_merges = min(rules.num_merges, max(len(data), 1))
        options.min_frequency = rules.min_frequency
        if rules.limits:
            options.refuse = refuse
            options.rules = <void*>asked
        options.keep_going = keep_going
        options.start_merges = merge_ids
        options.start_tokens = start_tokens
        offsets, counts = all_offsets, all_counts
        cdef const uint8_t* c_data = <const uint8_t*>PyBytes_AS_STRING(data)
        try:
            with nogil:
                loop.reset(new CParityMergeLoop(
                    c_data, &offsets[0], &counts[0], options, c_parity))
        except OverflowError as error:
            raise InputError(str(error)) from None
        recorder.lap("setting up words")
        merges, _ = run_loop(loop.get(), self.step_seconds, symbols, recorder)
        served = [source if source >= 0 else None for source in loop.get().served]
        return merges, served

    def draw(self, moment):
        from cs336_basics.counting import WordCounts

        cdef const uint8_t[::1] data
        cdef const int64_t[::1] offsets, counts
        data, offsets, counts = WordCounts.from_mapping(moment.word_counts).buffers
        cdef MergeOptions options
        cdef unique_ptr[CFlatMergeLoop] loop
        options.num_merges = len(moment.merges)
        options.keep_going = keep_going
        options.start_merges = moment.rules.start.merge_ids()
        options.start_tokens = moment.rules.start.symbols[NUM_BYTES:]
        if moment.rules.limits:
            options.refuse = refuse
            options.rules = <void*>moment.rules
        loop.reset(new CFlatMergeLoop(
            &data[0], &offsets[0], &counts[0], counts.shape[0], options))
        while loop.get().run(self.step_seconds):
            pass
        cdef size_t i
        cells = [loop.get().cells().data()[i] for i in range(loop.get().cells().size())]
        cdef list pairs = []
        cdef CPair stored
        for i in range(loop.get().pairs().size()):
            stored = loop.get().pairs()[i]
            if stored.count >= loop.get().threshold():
                postings = [stored.postings[j] for j in range(stored.num_postings)]
                pairs.append((stored.left, stored.right, stored.count, postings))
        widths = dict.fromkeys(moment.rules.start.symbols, 1)
        for left, right in moment.merges:
            widths[left + right] = widths[left] + widths[right]
        return _drawing(cells, pairs, loop.get().threshold(), moment.tokens(), widths)


cdef tuple run_loop(CMergeLoop* loop, double step_seconds, symbols, recorder):
    """Run a merge loop to its end, and return the merges and their tokens.

    Args:
        step_seconds: See NativeTrainer.
        symbols: Tokens by id before the first merge.
    """
    cdef list merges = [], tokens = list(symbols)
    cdef bytes left, right
    cdef pair[uint32_t, uint32_t] ids
    cdef size_t index, num_done
    cdef CMergeTrace row
    cdef cbool more = True
    while more:
        with nogil:
            more = loop.run(step_seconds)
        num_done = len(merges)
        for index in range(num_done, loop.merges.size()):
            ids = loop.merges[index]
            left, right = tokens[ids.first], tokens[ids.second]
            merges.append((left, right))
            tokens.append(left + right)
        recorder.lap("building the vocabulary", {
            "counting pairs": loop.seconds_counting,
            "finding the maximum": loop.seconds_finding,
            "updating": loop.seconds_updating,
        })
        recorder.advance(len(merges) - num_done)
        for index in range(num_done, loop.trace.size()):
            row = loop.trace[index]
            work = Work(row.occurrences, 0, row.positions, 0, row.pairs_updated,
                        row.heap_entries)
            recorder.traced(merges[index], row.count, row.seconds_counting,
                            row.seconds_finding, row.seconds_updating, work)
    return merges, tokens[len(symbols):]


class _Translated:
    """Rules for tokens whose bytes were translated.

    Args:
        rules: The rules.
        back: Table that translates the bytes back.
    """

    def __init__(self, rules, back):
        self._rules = rules
        self._back = back

    def refuse(self, pair, count):
        left, right = pair
        return self._rules.refuse((left.translate(self._back), right.translate(self._back)), count)


def _drawing(cells, pairs, threshold, tokens, widths):
    """Return a text drawing of the loop's data.

    Args:
        cells: Token ids, or 0xFFFF for a cell without a token.
        pairs: (left id, right id, count, postings) of the stored pairs.
        threshold: Minimum count of the stored pairs.
        tokens: Tokens by id.
        widths: Number of cells of each token: 1 before the first merge.
    """
    rows = []
    for left, right, count, postings in sorted(pairs, key=lambda pair: -pair[2]):
        width = widths[tokens[left]]
        # A posting is current if the two tokens of its pair are still adjacent there.
        marked = [
            str(p) if cells[p] == left and cells[p + width] == right else f"{p}*" for p in postings
        ]
        rows.append((pair_text((tokens[left], tokens[right])), count, " ".join(marked)))
    names = ["-" if cell == 0xFFFF else symbol_text(tokens[cell]) for cell in cells]
    drawn = bands([["position", *map(str, range(len(cells)))], ["cell", *names]])
    kept = f"threshold: {threshold}"
    if threshold == INT64_MAX:
        kept = "threshold: not set; pairs are counted in the first search for the maximum"
    listed = table([("pair", "count", "postings (* stale)"), *rows])
    return f"{drawn}\n\n{listed}\n\n{kept}"
