"""Version 5, native: a merge loop in C++ on flat arrays.

Unlike in v4, positions are not linked, and pairs that are too rare to be merged are not stored. The
algorithm is in `native/merging/flat_merge_loop.hpp`. This file passes the counted words to the loop
as arrays, and runs the loop for a tenth of a second at a time so that Ctrl-C and the progress bar
respond quickly.

Cost per merge: O(occurrences of the pair), most of which are close together in memory. Main
drawback: the code is hard to change; read v1 to v4 first.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint16_t, uint32_t
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
            return []
        cdef MergeOptions options
        cdef const uint8_t[::1] byte_ranks = rules.byte_ranks
        cdef unique_ptr[CMergeLoop] loop
        cdef cbool more = True
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
        cdef list tokens = list(rules.start.symbols), merges = []
        cdef bytes left, right
        cdef pair[uint32_t, uint32_t] ids
        cdef size_t index, num_done
        cdef CMergeTrace row
        try:
            with nogil:
                loop = move(make_merge_loop(&data[0], &offsets[0], &counts[0],
                                            counts.shape[0], options))
        except OverflowError as error:  # too many bytes in the words
            raise InputError(str(error)) from None
        recorder.lap("setting up words")
        cdef double step_seconds = self.step_seconds
        while more:
            with nogil:
                more = loop.get().run(step_seconds)
            num_done = len(merges)
            for index in range(num_done, loop.get().merges.size()):
                ids = loop.get().merges[index]
                left, right = tokens[ids.first], tokens[ids.second]
                merges.append((left, right))
                tokens.append(left + right)
            recorder.lap("building the vocabulary", {
                "counting pairs": loop.get().seconds_counting,
                "finding the maximum": loop.get().seconds_finding,
                "updating": loop.get().seconds_updating,
            })
            recorder.advance(len(merges) - num_done)
            for index in range(num_done, loop.get().trace.size()):
                row = loop.get().trace[index]
                work = Work(row.occurrences, 0, row.positions, 0, row.pairs_updated,
                            row.heap_entries)
                recorder.traced(merges[index], row.count, row.seconds_counting,
                                row.seconds_finding, row.seconds_updating, work)
        return merges

    def draw(self, moment):
        from cs336_basics.counting import WordCounts

        cdef const uint8_t[::1] data
        cdef const int64_t[::1] offsets, counts
        data, offsets, counts = WordCounts.from_mapping(moment.word_counts).buffers
        cdef MergeOptions options
        cdef unique_ptr[CFlatMergeLoop] loop
        options.num_merges = len(moment.merges)
        options.keep_going = keep_going
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
        return _drawing(cells, pairs, loop.get().threshold(), moment.tokens())


def _drawing(cells, pairs, threshold, tokens):
    """Return a text drawing of the loop's data.

    Args:
        cells: Token ids, or 0xFFFF for a cell without a token.
        pairs: (left id, right id, count, postings) of the stored pairs.
        threshold: Minimum count of the stored pairs.
        tokens: Tokens by id.
    """
    rows = []
    for left, right, count, postings in sorted(pairs, key=lambda pair: -pair[2]):
        width = len(tokens[left])
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
