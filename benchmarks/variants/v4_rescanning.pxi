    # The part of v4 that bench_ablations.py replaces. A pair knows the words that hold it instead
    # of its positions, and a merge scans these words from end to end. Everything else is v4's.
    #
    # A word keeps its symbols together: the first is at previous_position[word], and there are
    # next_position[word]. The words of a pair are a list of nodes: same_previous[node] is the word,
    # same_next[node] the next node. A word may be in a list although it no longer holds the pair.

    cdef int link_words(self, int64_t[::1] lengths) except -1 nogil:
        cdef Py_ssize_t index, i, start = 0
        for index in range(lengths.shape[0]):
            self.previous_position[index] = <position_t>start
            self.next_position[index] = <position_t>lengths[index]
            for i in range(start, start + lengths[index] - 1):
                self.append(<int32_t>index, self.token[i], self.token[i + 1])
            start += lengths[index]
        return 0

    cdef int append(self, int32_t word, token_t left, token_t right) except -1 nogil:
        if not self.fits(left, right):
            return 0
        cdef pair_t pair = self.find_or_add(left, right)
        cdef position_t tail = self.pair_tail[pair]
        self.pair_count[pair] += self.word_count[word]
        if tail != NONE and self.same_previous[tail] == word:
            return 0
        if self.num_nodes == self.same_next.shape[0]:
            self.grow_nodes()
        cdef position_t node = <position_t>self.num_nodes
        self.num_nodes += 1
        self.same_previous[node] = word
        self.same_next[node] = NONE
        if tail == NONE:
            self.pair_head[pair] = node
        else:
            self.same_next[tail] = node
        self.pair_tail[pair] = node
        return 0

    cdef int grow_nodes(self) except -1 with gil:
        self.same_next = _grown(self.same_next, 2 * self.same_next.shape[0])
        self.same_previous = _grown(self.same_previous, 2 * self.same_previous.shape[0])
        return 0

    cdef int remove(self, int32_t word, token_t left, token_t right) except -1 nogil:
        if self.fits(left, right):
            self.pair_count[self.find_or_add(left, right)] -= self.word_count[word]
        return 0

    cdef int merge(self, pair_t pair) except -1 nogil:
        cdef token_t left = self.pair_left[pair]
        cdef token_t right = self.pair_right[pair]
        cdef token_t merged = self.add_token(left, right)
        cdef pair_t first_new = self.num_pairs
        cdef position_t node = self.pair_head[pair], start, length, read, write
        cdef int32_t word
        while node != NONE:
            word = self.same_previous[node]
            node = self.same_next[node]
            start = self.previous_position[word]
            length = self.next_position[word]
            read = write = 0
            while read < length:
                if (read + 1 < length and self.token[start + read] == left
                        and self.token[start + read + 1] == right):
                    self.remove(word, left, right)
                    if write > 0:
                        self.remove(word, self.token[start + write - 1], left)
                        self.append(word, self.token[start + write - 1], merged)
                    if read + 2 < length:
                        self.remove(word, right, self.token[start + read + 2])
                        self.append(word, merged, self.token[start + read + 2])
                    self.token[start + write] = merged
                    read += 2
                else:
                    self.token[start + write] = self.token[start + read]
                    read += 1
                write += 1
            self.next_position[word] = write
        self.push_pairs_from(first_new)
        return 0

