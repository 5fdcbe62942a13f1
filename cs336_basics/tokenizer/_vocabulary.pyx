# distutils: language = c++
"""Look up the ids of merges, three times as fast as the same loop in Python."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

import numpy as np


cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object mapping, object key) except? NULL


def index_merges(list merges, dict token_ids):
    """Return the ids of the left, right and joined tokens of each merge.

    Returns:
        Array of shape (num_merges, 3), uint32; or None if a merge is not a tuple or list of two
        bytes objects, or a token is not in `token_ids`.
    """
    ids = np.empty((len(merges), 3), np.uint32)
    cdef uint32_t[:, ::1] rows = ids
    cdef Py_ssize_t rank = 0
    for merge in merges:
        if type(merge) is tuple and len(<tuple>merge) == 2:
            left, right = (<tuple>merge)[0], (<tuple>merge)[1]
        elif type(merge) is list and len(<list>merge) == 2:
            left, right = (<list>merge)[0], (<list>merge)[1]
        else:
            return None
        if type(left) is not bytes or type(right) is not bytes:
            return None
        if not (
            find_id(token_ids, left, &rows[rank, 0])
            and find_id(token_ids, right, &rows[rank, 1])
            and find_id(token_ids, left + right, &rows[rank, 2])
        ):
            return None
        rank += 1
    return ids


cdef bint find_id(dict token_ids, token, uint32_t* token_id) except -1:
    cdef PyObject* found = PyDict_GetItemWithError(token_ids, token)
    if found is NULL:
        return False
    token_id[0] = <uint32_t>(<object>found)
    return True
