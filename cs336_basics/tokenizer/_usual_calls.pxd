"""UsualCalls: the interface between Tokenizer's methods and a compiled encoder."""

cdef struct Rest:  # the bytes of an incomplete character
    char data[4]
    Py_ssize_t size


cdef class UsualCalls:
    cdef list encode(self, str text)
    cdef object encode_array(self, str text)
    cdef object decode(self, object ids, bint as_text)
    cdef object push(self, bytes waiting, object token_id, Rest* rest)
