# distutils: language = c++
"""Copy sequences of ids into the rows of one array."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t

cdef extern from "base/compiler.hpp" namespace "cs336" nogil:
    int64_t load_relaxed(const int64_t* value)


ctypedef fused id_t:
    uint16_t
    uint32_t
    int64_t


def fill_rows(const id_t[::1] ids not None, const int64_t[::1] starts not None,
              const int64_t[::1] lengths not None, int64_t pad_id, bint at_left,
              int64_t[:, ::1] padded not None, uint8_t[:, ::1] mask not None):
    """Write the sequences ids[starts[i] : starts[i] + lengths[i]] to the rows of two arrays.

    Args:
        ids, starts, lengths: The sequences.
        pad_id: Value of the other elements of `padded`.
        at_left: Whether the padding is before the sequence.
        padded, mask: Arrays of shape (number of sequences, width). All elements are written.

    Raises:
        ValueError: If a sequence is outside `ids` or longer than a row, or the arrays have
            different numbers of rows or widths.
    """
    cdef Py_ssize_t row, column, number = lengths.shape[0], width = padded.shape[1]
    cdef Py_ssize_t length, begin, start
    cdef const id_t* sequence
    cdef int64_t* out
    cdef uint8_t* is_id
    if padded.shape[0] != number or mask.shape[0] != number or starts.shape[0] < number:
        raise ValueError("the arrays do not have the same number of rows")
    if mask.shape[1] != width:
        raise ValueError("the arrays do not have the same width")
    if number == 0 or width == 0:
        return
    with nogil:
        for row in range(number):
            # Another thread may change the arrays. What is checked is what is used.
            start, length = load_relaxed(&starts[row]), load_relaxed(&lengths[row])
            if not (0 <= length <= width and 0 <= start <= ids.shape[0] - length):
                with gil:
                    raise ValueError("a sequence is outside the ids or longer than a row")
            begin = width - length if at_left else 0
            sequence = &ids[0] + start if length else NULL
            out = &padded[row, 0]
            is_id = &mask[row, 0]
            for column in range(begin):
                out[column] = pad_id
                is_id[column] = 0
            for column in range(length):
                out[begin + column] = sequence[column]
                is_id[begin + column] = 1
            for column in range(begin + length, width):
                out[column] = pad_id
                is_id[column] = 0
