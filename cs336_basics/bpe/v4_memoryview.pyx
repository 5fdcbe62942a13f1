"""Version 4, memoryview: flat arrays, typed memoryviews and a loop that releases the GIL.

Unlike in v3, no symbol is a Python object. One array contains the token ids of all words. Each
position is in two linked lists: one links it to its neighbors in the word, and the other to the
previous and next positions of the same pair. A merge takes constant time per occurrence,
regardless of the word's length, and no search is needed to find the occurrences:

    position       0    1    2    3    4    5     (the words "low" and "lot")
    token          l    o    w    l    o    t
    previous       -    0    1    -    3    4     the left neighbor in the word
    next           1    2    -    4    5    -     the right neighbor
    same_previous  -    -    -    0    -    -     (l, o) occurs at 0 and at 3
    same_next      3    -    -    -    -    -

The positions in a pair's list ascend, because a merge visits its occurrences from left to right and
appends to the lists of the new pairs. Runs such as "aaaa" are therefore merged from the left, as
BPE requires. A hash table maps (left id, right id) to a dense pair id. The lazy heap is the same as
in v3.

Cost per merge: O(occurrences of the pair). Main drawbacks: a pair's positions are scattered across
memory, so a large corpus causes many cache misses; and one core does all the work.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from cs336_basics._support.errors import InputError
from cs336_basics._support.lazy import np
from cs336_basics.bpe.base import BPE_Trainer
from cs336_basics.bpe.drawing import bands, pair_text, symbol_text, table
from cs336_basics.bpe.reference import NUM_BYTES
from cs336_basics.bpe.trace import Work

cdef extern from "base/clock.hpp" namespace "cs336" nogil:
    double seconds_now()
cdef extern from "base/hashing.hpp" namespace "cs336" nogil:
    cdef struct HashSeed:
        pass
    const HashSeed& process_hash_seed() except +
    uint64_t hash_pair(const HashSeed& seed, uint32_t left, uint32_t right)
cdef extern from "merging/token_bytes.hpp" namespace "cs336" nogil:
    cdef cppclass TokenBytes:
        TokenBytes(const uint8_t* byte_ranks) except +
        string bytes(uint32_t token)
        uint32_t add(uint32_t left, uint32_t right) except +
        uint32_t add(const string& bytes) except +
        int compare(uint32_t one, uint32_t other)
cdef extern from "merging/starting_merges.hpp" namespace "cs336" nogil:
    cdef cppclass StartingMerges:
        StartingMerges(const vector[uint32_t]& merges) except +
        int64_t merge(const uint8_t* word, size_t length, uint32_t* out) except +
cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

ctypedef int64_t count_t
ctypedef int32_t token_t
ctypedef int32_t position_t
ctypedef int32_t pair_t
cdef enum:
    NONE = -1

# Number of merges between updates of the progress bar and checks for Ctrl-C.
cdef Py_ssize_t SLICE = 256


class MemoryviewTrainer(BPE_Trainer):
    """Runs `MergeLoop` on flat arrays."""

    name = "memoryview"
    work_units = {}
    read_unit = "occurrence"

    def learn_merges(self, word_counts, rules, recorder):
        recorder.lap("setting up words")
        np.empty  # imports NumPy
        recorder.skip()
        loop = MergeLoop(word_counts, rules, recorder.trace is not None)
        recorder.lap("setting up words", {"counting pairs": loop.seconds_counting})
        tokens, merges = list(rules.start.symbols), []
        num_known = len(tokens)
        while len(merges) < rules.num_merges:
            learned = loop.run(min(SLICE, rules.num_merges - len(merges)))
            for left, right in learned:
                merges.append((tokens[left], tokens[right]))
                tokens.append(tokens[left] + tokens[right])
            recorder.lap("building the vocabulary", {
                "finding the maximum": loop.seconds_finding, "updating": loop.seconds_updating
            })
            if not learned:
                break
            recorder.advance(len(learned))
            for index in range(len(merges) - len(learned), len(loop.trace)):
                counting = 0.0 if index else loop.seconds_counting
                count, finding, updating, work = loop.trace[index]
                recorder.traced(merges[index], count, counting, finding, updating, work)
        return merges, tokens[num_known:]

    def draw(self, moment):
        from cs336_basics.counting import WordCounts

        loop = MergeLoop(WordCounts.from_mapping(moment.word_counts), moment.rules)
        loop.run(len(moment.merges))
        return _drawing(loop, moment.tokens())


cdef class MergeLoop:
    """State of the merge loop: words as linked positions, pairs, and a heap of pairs.

    Args:
        word_counts: A WordCounts.
        rules: The Rules of the run.
        traced: Whether to fill `trace`.

    Attributes:
        seconds_counting: Seconds spent counting pairs.
        seconds_finding, seconds_updating: Seconds spent in each phase of the last call to `run`.
        trace: (count, seconds spent finding, seconds spent updating, Work) for each merge, if
            `traced`.

    Raises:
        InputError: If the words have 2^31 bytes or more in total.
    """

    cdef readonly double seconds_counting
    cdef readonly double seconds_finding
    cdef readonly double seconds_updating
    cdef readonly list trace

    # indexed by position in the concatenated words
    cdef readonly token_t[::1] token
    cdef readonly position_t[::1] next_position
    cdef readonly position_t[::1] previous_position
    cdef readonly position_t[::1] same_next       # next position of the same pair
    cdef readonly position_t[::1] same_previous
    cdef readonly int32_t[::1] word            # index into word_count

    cdef const count_t[::1] word_count

    # indexed by pair id; grown by doubling
    cdef readonly token_t[::1] pair_left
    cdef readonly token_t[::1] pair_right
    cdef readonly count_t[::1] pair_count
    cdef readonly position_t[::1] pair_head
    cdef position_t[::1] pair_tail
    cdef readonly pair_t num_pairs
    cdef pair_t[::1] slots                     # open addressing: (left, right) -> pair id
    cdef uint64_t slot_mask
    cdef HashSeed seed

    # the heap: pair ids and the pairs' counts when pushed; grown by doubling
    cdef readonly count_t[::1] heap_count
    cdef readonly pair_t[::1] heap_pair
    cdef readonly Py_ssize_t heap_size

    cdef unique_ptr[TokenBytes] tokens         # for their lengths and the tie rule
    cdef count_t min_count
    cdef object rules
    cdef bint limited
    cdef bint traced
    cdef Py_ssize_t num_occurrences, num_words, num_updates, num_heap_entries  # for the last merge

    def __cinit__(self, word_counts, rules, traced=False):
        if len(word_counts.data) >= 2**31:
            raise InputError(
                "the distinct words must have at most 2,147,483,647 bytes in total, got "
                f"{len(word_counts.data):,}",
                remedy="use another trainer",
            )
        self.trace = []
        self.traced = traced
        self.min_count = max(rules.min_frequency, 1)
        self.rules = rules
        self.limited = bool(rules.limits)
        self.add_tokens(rules.start.symbols[NUM_BYTES:], rules.byte_ranks)
        symbols, lengths = split_words(word_counts, rules.start)
        self.token = symbols.astype(np.int32)
        self.next_position, self.previous_position = np.empty((2, len(symbols)), np.int32)
        self.same_next, self.same_previous = np.empty((2, len(symbols)), np.int32)
        self.word = np.empty(len(symbols), np.int32)
        self.word_count = word_counts.counts
        self.pair_left, self.pair_right = np.empty((2, 1024), np.int32)
        self.pair_count = np.empty(1024, np.int64)
        self.pair_head, self.pair_tail = np.empty((2, 1024), np.int32)
        self.slots = np.full(4096, NONE, np.int32)
        self.slot_mask = 4095
        self.seed = process_hash_seed()
        self.heap_count = np.empty(1024, np.int64)
        self.heap_pair = np.empty(1024, np.int32)
        cdef int64_t[::1] symbols_of_word = lengths
        cdef double start = seconds_now()
        with nogil:
            self.link_words(symbols_of_word)
            self.push_pairs_from(0)
        self.seconds_counting = seconds_now() - start

    cdef add_tokens(self, list merged, const uint8_t[::1] byte_ranks):
        """Set `tokens` to the bytes and the tokens of the continued merges."""
        cdef const uint8_t* ranks = NULL
        if byte_ranks is not None:
            ranks = &byte_ranks[0]
        self.tokens.reset(new TokenBytes(ranks))
        for token in merged:
            self.tokens.get().add(<string>token)

    def run(self, Py_ssize_t num_merges):
        """Learn `num_merges` more merges, or fewer if no pair is left.

        Returns:
            List of (left id, right id). Ids 0-255 are the bytes, followed by the tokens of the
            continued merges and the tokens of the learned merges.
        """
        cdef Py_ssize_t done = 0
        cdef pair_t best
        cdef count_t count
        cdef double start, found, end
        cdef int32_t[::1] best_pairs = np.empty(num_merges, np.int32)
        self.seconds_finding = self.seconds_updating = 0
        with nogil:
            while done < num_merges:
                start = seconds_now()
                best = self.pop_best()
                found = seconds_now()
                self.seconds_finding += found - start
                if best == NONE:
                    break
                count = self.pair_count[best]
                if self.limited and self.refuse(best):
                    continue  # the pair is no longer in the heap
                self.merge(best)
                best_pairs[done] = best
                done += 1
                end = seconds_now()
                self.seconds_updating += end - found
                if self.traced:
                    with gil:
                        work = Work(self.num_occurrences, self.num_words, self.num_occurrences, 0,
                                    self.num_updates, self.num_heap_entries)
                        self.trace.append((count, found - start, end - found, work))
        return [(self.pair_left[best], self.pair_right[best]) for best in best_pairs[:done]]

    # --- words and pairs ------------------------------------------------------------------------

    cdef int link_words(self, int64_t[::1] lengths) except -1 nogil:
        """Link the positions of each word and of each pair."""
        cdef Py_ssize_t index, position = 0, end
        for index in range(lengths.shape[0]):
            end = position + lengths[index]
            while position < end:
                self.word[position] = <int32_t>index
                self.previous_position[position] = NONE
                self.next_position[position] = NONE
                if position > end - lengths[index]:
                    self.previous_position[position] = <position_t>(position - 1)
                if position + 1 < end:
                    self.next_position[position] = <position_t>(position + 1)
                    self.append(
                        <position_t>position, self.token[position], self.token[position + 1]
                    )
                position += 1
        return 0

    cdef int append(self, position_t position, token_t left, token_t right) except -1 nogil:
        """Append a position to the list of the pair that starts there."""
        cdef pair_t pair = self.find_or_add(left, right)
        self.pair_count[pair] += self.word_count[self.word[position]]
        self.same_next[position] = NONE
        self.same_previous[position] = self.pair_tail[pair]
        if self.pair_tail[pair] == NONE:
            self.pair_head[pair] = position
        else:
            self.same_next[self.pair_tail[pair]] = position
        self.pair_tail[pair] = position
        return 0

    cdef int remove(self, position_t position, token_t left, token_t right) except -1 nogil:
        """Remove a position from the list of the pair that starts there."""
        cdef pair_t pair = self.find_or_add(left, right)
        cdef position_t before = self.same_previous[position]
        cdef position_t after = self.same_next[position]
        self.pair_count[pair] -= self.word_count[self.word[position]]
        if before == NONE:
            self.pair_head[pair] = after
        else:
            self.same_next[before] = after
        if after == NONE:
            self.pair_tail[pair] = before
        else:
            self.same_previous[after] = before
        return 0

    cdef int merge(self, pair_t pair) except -1 nogil:
        """Merge all occurrences of a pair, and push the new pairs."""
        cdef token_t left = self.pair_left[pair]
        cdef token_t right = self.pair_right[pair]
        cdef token_t merged = <token_t>self.tokens.get().add(left, right)
        cdef pair_t first_new = self.num_pairs
        cdef position_t position, second, before, after
        cdef int32_t word = NONE
        cdef Py_ssize_t num_occurrences = 0, num_words = 0, num_beside = 0
        # Each removal advances the list's head. In "aaa", the merge at 0 also removes position 1.
        while self.pair_head[pair] != NONE:
            position = self.pair_head[pair]
            second = self.next_position[position]
            before = self.previous_position[position]
            after = self.next_position[second]
            num_occurrences += 1
            num_words += self.word[position] != word  # positions ascend
            num_beside += (before != NONE) + (after != NONE)
            word = self.word[position]
            self.remove(position, left, right)
            if before != NONE:
                self.remove(before, self.token[before], left)
            if after != NONE:
                self.remove(second, right, self.token[after])
            self.token[position] = merged
            self.next_position[position] = after
            if after != NONE:
                self.previous_position[after] = position
                self.append(position, merged, self.token[after])
            if before != NONE:
                self.append(before, self.token[before], merged)
        # Every pair created above contains the new token, and no earlier pair does.
        self.push_pairs_from(first_new)
        self.num_occurrences = num_occurrences
        self.num_words = num_words
        self.num_updates = num_occurrences + 2 * num_beside
        return 0

    cdef pair_t find_or_add(self, token_t left, token_t right) except -2 nogil:
        """Return the id of a pair. A new pair gets a new id and an empty list."""
        cdef uint64_t slot = hash_pair(self.seed, left, right) & self.slot_mask
        cdef pair_t pair = self.slots[slot]
        while pair != NONE:
            if self.pair_left[pair] == left and self.pair_right[pair] == right:
                return pair
            slot = (slot + 1) & self.slot_mask
            pair = self.slots[slot]
        if self.num_pairs == self.pair_left.shape[0]:
            self.grow_pairs()
            return self.find_or_add(left, right)  # the slots were reallocated
        pair = self.num_pairs
        self.num_pairs += 1
        self.slots[slot] = pair
        self.pair_left[pair] = left
        self.pair_right[pair] = right
        self.pair_count[pair] = 0
        self.pair_head[pair] = NONE
        self.pair_tail[pair] = NONE
        return pair

    cdef int grow_pairs(self) except -1 with gil:
        """Double the capacity for pairs. The hash table has four times as many slots."""
        cdef Py_ssize_t size = 2 * self.pair_left.shape[0]
        cdef pair_t pair
        cdef uint64_t slot
        self.pair_left = _grown(self.pair_left, size)
        self.pair_right = _grown(self.pair_right, size)
        self.pair_count = _grown(self.pair_count, size)
        self.pair_head = _grown(self.pair_head, size)
        self.pair_tail = _grown(self.pair_tail, size)
        self.slots = np.full(4 * size, NONE, np.int32)
        self.slot_mask = 4 * size - 1
        for pair in range(self.num_pairs):
            slot = hash_pair(self.seed, self.pair_left[pair], self.pair_right[pair])
            slot &= self.slot_mask
            while self.slots[slot] != NONE:
                slot = (slot + 1) & self.slot_mask
            self.slots[slot] = pair
        return 0

    cdef bint refuse(self, pair_t pair) except -1 with gil:
        """Return whether the rules refuse the pair that was just popped."""
        cdef bytes left = self.tokens.get().bytes(self.pair_left[pair])
        cdef bytes right = self.tokens.get().bytes(self.pair_right[pair])
        return self.rules.refuse((left, right), self.pair_count[pair])

    # --- the heap: largest (count, left, right) on top ------------------------------------------

    cdef pair_t pop_best(self) except -2 nogil:
        """Pop the pair with the highest count, or return NONE if none is frequent enough."""
        cdef pair_t pair
        self.num_heap_entries = 0
        while self.heap_size > 0:
            self.num_heap_entries += 1
            pair = self.heap_pair[0]
            if self.pair_count[pair] == self.heap_count[0]:
                self.pop_top()
                return pair
            # The count fell after the push: push the pair again with its new count, or drop it.
            if self.pair_count[pair] >= self.min_count:
                self.heap_count[0] = self.pair_count[pair]
                self.sift_down(0)
            else:
                self.pop_top()
        return NONE

    cdef int push_pairs_from(self, pair_t first) except -1 nogil:
        """Push all frequent pairs whose ids are at least `first`."""
        cdef pair_t pair
        for pair in range(first, self.num_pairs):
            if self.pair_count[pair] >= self.min_count:
                if self.heap_size == self.heap_pair.shape[0]:
                    self.grow_heap()
                self.heap_pair[self.heap_size] = pair
                self.heap_count[self.heap_size] = self.pair_count[pair]
                self.heap_size += 1
                self.num_heap_entries += 1
                self.sift_up(self.heap_size - 1)
        return 0

    cdef int grow_heap(self) except -1 with gil:
        self.heap_count = _grown(self.heap_count, 2 * self.heap_count.shape[0])
        self.heap_pair = _grown(self.heap_pair, 2 * self.heap_pair.shape[0])
        return 0

    cdef void pop_top(self) noexcept nogil:
        self.heap_size -= 1
        self.heap_pair[0] = self.heap_pair[self.heap_size]
        self.heap_count[0] = self.heap_count[self.heap_size]
        self.sift_down(0)

    cdef bint above(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        """Return whether heap entry i belongs above entry j."""
        cdef pair_t p = self.heap_pair[i], q = self.heap_pair[j]
        if self.heap_count[i] != self.heap_count[j]:
            return self.heap_count[i] > self.heap_count[j]
        if self.pair_left[p] != self.pair_left[q]:
            return self.tokens.get().compare(self.pair_left[p], self.pair_left[q]) > 0
        return self.tokens.get().compare(self.pair_right[p], self.pair_right[q]) > 0

    cdef void swap(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
        self.heap_pair[i], self.heap_pair[j] = self.heap_pair[j], self.heap_pair[i]
        self.heap_count[i], self.heap_count[j] = self.heap_count[j], self.heap_count[i]

    cdef void sift_up(self, Py_ssize_t i) noexcept nogil:
        while i > 0 and self.above(i, (i - 1) // 2):
            self.swap(i, (i - 1) // 2)
            i = (i - 1) // 2

    cdef void sift_down(self, Py_ssize_t i) noexcept nogil:
        cdef Py_ssize_t child
        while True:
            child = 2 * i + 1
            if child >= self.heap_size:
                return
            if child + 1 < self.heap_size and self.above(child + 1, child):
                child += 1
            if not self.above(child, i):
                return
            self.swap(i, child)
            i = child


def _grown(view, size):
    """Return a copy of an array, enlarged to `size` items. The new items are uninitialized."""
    old = np.asarray(view)
    new = np.empty(size, old.dtype)
    new[: old.shape[0]] = old
    return new


def split_words(word_counts, start):
    """Return the words' symbols before the first new merge, and the number of symbols per word.

    This is a compiled version of `StartingVocabulary.split`. The symbols are indices into
    `start.symbols`.
    """
    if not start.merges:
        return word_counts.data, np.diff(word_counts.offsets)
    cdef const uint8_t[::1] data = word_counts.data
    cdef const int64_t[::1] offsets = word_counts.offsets
    cdef uint32_t[::1] symbols = np.empty(data.shape[0] + 1, np.uint32)
    cdef int64_t[::1] lengths = np.zeros(offsets.shape[0] - 1, np.int64)
    cdef unique_ptr[StartingMerges] merger
    cdef Py_ssize_t word, total = 0
    merger.reset(new StartingMerges(start.merge_ids()))
    with nogil:
        for word in range(lengths.shape[0]):
            if offsets[word + 1] > offsets[word]:
                lengths[word] = merger.get().merge(
                    &data[offsets[word]], offsets[word + 1] - offsets[word], &symbols[total])
            total += lengths[word]
            if word % 4096 == 0:
                with gil:
                    PyErr_CheckSignals()
    return np.asarray(symbols)[:total], np.asarray(lengths)


def _drawing(loop, tokens):
    """Return a text drawing of a loop: its arrays, pairs and heap."""
    size = len(loop.token)
    alive = set()
    for position in range(size):
        if position == 0 or loop.word[position] != loop.word[position - 1]:
            while position != NONE:
                alive.add(position)
                position = loop.next_position[position]

    def row(name, values):
        cells = ["-" if value == NONE else str(value) for value in values]
        return [name, *[cell if p in alive else "." for p, cell in enumerate(cells)]]

    pairs, linked = [], set()
    names = [
        pair_text((tokens[loop.pair_left[pair]], tokens[loop.pair_right[pair]]))
        for pair in range(loop.num_pairs)
    ]
    for pair, name in enumerate(names):
        occurrences = []
        position = loop.pair_head[pair]
        while position != NONE:
            occurrences.append(position)
            position = loop.same_next[position]
        linked.update(occurrences)
        if occurrences:
            pairs.append((name, loop.pair_count[pair], " -> ".join(map(str, occurrences))))
    arrays = bands([
        ["position", *map(str, range(size))],
        row("token", [symbol_text(tokens[token]) for token in loop.token]),
        row("word", loop.word),
        row("previous", loop.previous_position),
        row("next", loop.next_position),
        row("same_previous", [loop.same_previous[p] if p in linked else NONE for p in range(size)]),
        row("same_next", [loop.same_next[p] if p in linked else NONE for p in range(size)]),
    ])
    heap = [(names[loop.heap_pair[i]], loop.heap_count[i]) for i in range(loop.heap_size)]
    return "\n\n".join([
        arrays,
        table([("pair", "count", "linked occurrences"), *pairs]),
        table([("heap", "count when pushed"), *heap]),
    ])
