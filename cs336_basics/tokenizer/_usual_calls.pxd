"""UsualCalls: the interface between Tokenizer's methods and a compiled encoder."""


cdef class UsualCalls:
    cdef list encode(self, str text)
    cdef object encode_array(self, str text)
    cdef object decode(self, object ids, bint as_text)
    cdef object text_of(self, object token_id)
    cdef object bytes_of(self, object token_id)
