"""Version 5, native: a merge loop in C++ on flat arrays.

Unlike in v4, positions are not linked, and pairs that are too rare to be merged are not stored. The
algorithm is in `native/merging/flat_merge_loop.hpp`. This file passes the counted words to the loop
as arrays, and runs the loop for a tenth of a second at a time so that Ctrl-C and the progress bar
respond quickly.

Cost per merge: O(occurrences of the pair), most of which are close together in memory. Main
drawback: the code is hard to change; read v1 to v4 first.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.pair cimport pair
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector

from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.options import huggingface_byte_ranks
from cs336_basics.bpe.reference import NUM_BYTES
from cs336_basics.bpe.trace import Work
from cs336_basics.execution.workers import resolve_num_workers

cdef extern from "merging/flat_merge_loop.hpp" namespace "cs336" nogil:
    cdef cppclass MergeOptions:
        int64_t num_merges
        int64_t min_frequency
        int64_t max_token_length
        const uint8_t* byte_ranks
        cbool (*keep_going)() noexcept
        cbool traced
        vector[uint32_t] start_merges
        vector[string] start_tokens
        size_t num_threads
        cbool threshold
        cbool sorted_words
        cbool prefetch

    cdef struct CMergeTrace "cs336::MergeTrace":
        int64_t count
        int64_t occurrences
        int64_t positions
        int64_t pairs_updated
        int64_t heap_entries
        double seconds_counting
        double seconds_finding
        double seconds_updating

    cdef struct CPair "cs336::Pair":
        int64_t count
        uint32_t left
        uint32_t right
        uint32_t* postings
        uint32_t num_postings

    cdef cppclass CMergeState "cs336::MergeState":
        int64_t threshold
        vector[int64_t] cells
        vector[CPair] pairs

    cdef cppclass CMergeLoop "cs336::MergeLoop":
        cbool run(double seconds) except +
        CMergeState state() except +
        vector[pair[uint32_t, uint32_t]] merges
        vector[CMergeTrace] trace
        double seconds_counting
        double seconds_finding
        double seconds_updating

    unique_ptr[CMergeLoop] make_merge_loop(
        const uint8_t* data, const int64_t* offsets, const int64_t* counts, int64_t num_words,
        const MergeOptions& options) except +

cdef extern from "Python.h":
    # Declared without `except`: the exception is raised after the merge loop has returned.
    int PyErr_CheckSignals()


cdef cbool keep_going() noexcept with gil:
    """Run signal handlers, such as the one for Ctrl-C. Return False if one raised an exception."""
    return PyErr_CheckSignals() == 0


class NativeTrainer(BPE_Trainer):
    """Runs the merge loop in C++.

    Attributes:
        omit: Optimizations to switch off: "threshold", "sorted words" or "prefetch". The merges do
            not change. Benchmarks use this attribute to measure the gain from each optimization.
        step_seconds: Seconds between updates of the progress bar and checks for Ctrl-C.
    """

    name = "native"
    omit = ()
    step_seconds = 0.1

    def learn_merges(self, word_counts, num_merges, recorder):
        cdef const uint8_t[::1] data
        cdef const int64_t[::1] offsets, counts
        data, offsets, counts = word_counts.buffers
        # Every merge removes at least one symbol, so there are fewer merges than bytes.
        num_merges = min(num_merges, data.shape[0])
        if not num_merges:
            return []
        cdef MergeOptions options
        cdef const uint8_t[::1] byte_ranks = bytes(huggingface_byte_ranks())
        cdef unique_ptr[CMergeLoop] loop
        cdef cbool more = True
        options.num_merges = num_merges
        options.min_frequency = self.min_frequency
        options.max_token_length = self.max_token_length or INT64_MAX
        options.byte_ranks = &byte_ranks[0] if self.tie_break == "huggingface" else NULL
        options.keep_going = keep_going
        options.num_threads = resolve_num_workers(self.num_workers)
        options.traced = recorder.trace is not None
        options.threshold = "threshold" not in self.omit
        options.sorted_words = "sorted words" not in self.omit
        options.prefetch = "prefetch" not in self.omit
        options.start_merges = self.start.merge_ids()
        options.start_tokens = self.start.symbols[NUM_BYTES:]
        cdef list tokens = list(self.start.symbols), merges = []
        cdef bytes left, right
        cdef pair[uint32_t, uint32_t] ids
        cdef size_t index, num_done
        cdef CMergeTrace row
        with nogil:
            loop = move(make_merge_loop(&data[0], &offsets[0], &counts[0],
                                        counts.shape[0], options))
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


def merge_state(word_counts, num_merges):
    """Return the state of the merge loop after learning `num_merges` merges, for `explain`.

    Returns:
        threshold: Minimum count of the stored pairs.
        cells: Token ids, with -1 between words.
        pairs: (left id, right id, count, postings) of the stored pairs.
    """
    cdef const uint8_t[::1] data
    cdef const int64_t[::1] offsets, counts
    data, offsets, counts = word_counts.buffers
    cdef MergeOptions options
    options.num_merges = num_merges
    options.keep_going = keep_going
    cdef unique_ptr[CMergeLoop] loop = move(
        make_merge_loop(&data[0], &offsets[0], &counts[0], counts.shape[0], options))
    while loop.get().run(NativeTrainer.step_seconds):
        pass
    cdef CMergeState state = loop.get().state()
    pairs = [
        (pair.left, pair.right, pair.count, [pair.postings[i] for i in range(pair.num_postings)])
        for pair in state.pairs
        if pair.count >= state.threshold
    ]
    return state.threshold, list(state.cells), pairs
