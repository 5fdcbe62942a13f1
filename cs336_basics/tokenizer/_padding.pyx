# distutils: language = c++
"""Copy sequences of ids into the rows of one array."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t

ctypedef fused id_t:
    uint16_t
    uint32_t
    int64_t


def fill_rows(const id_t[::1] ids, const int64_t[::1] starts, const int64_t[::1] lengths,
              int64_t pad_id, bint at_left, int64_t[:, ::1] padded, uint8_t[:, ::1] mask):
    """Write the sequences ids[starts[i] : starts[i] + lengths[i]] to the rows of two arrays.

    Args:
        ids, starts, lengths: The sequences.
        pad_id: Value of the other elements of `padded`.
        at_left: Whether the padding is before the sequence.
        padded, mask: Arrays of shape (number of sequences, width). All elements are written.
    """
    cdef Py_ssize_t row, column, number = lengths.shape[0], width = padded.shape[1]
    cdef Py_ssize_t length, begin
    cdef const id_t* sequence
    cdef int64_t* out
    cdef uint8_t* is_id
    if padded.shape[0] != number or mask.shape[0] != number or starts.shape[0] < number:
        raise ValueError("the arrays do not have the same number of rows")
    if mask.shape[1] != width:
        raise ValueError("the arrays do not have the same width")
    if number == 0 or width == 0:
        return
    for row in range(number):
        if not (0 <= lengths[row] <= width and 0 <= starts[row] <= ids.shape[0] - lengths[row]):
            raise ValueError("a sequence is outside the ids or longer than a row")
    with nogil:
        for row in range(number):
            length = lengths[row]
            begin = width - length if at_left else 0
            sequence = &ids[0] + starts[row] if length else NULL
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
