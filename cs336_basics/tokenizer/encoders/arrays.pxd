"""NumPy arrays made by NumPy's C API, which takes a tenth of the time of a call from Python.

The functions are read from the table that NumPy exports. The positions in it are part of its ABI
and equal in NumPy 1 and 2 (`numpy/__multiarray_api.h`). So the build does not need NumPy, and NumPy
is imported when the first array is made.
"""

from libc.string cimport memcpy

cdef extern from *:
    """
    static void** cs336_numpy_api = NULL;

    /* Read the table from the module that exports it. */
    static int cs336_read_numpy_api(PyObject* module) {
        PyObject* const capsule = PyObject_GetAttrString(module, "_ARRAY_API");
        if (!capsule) return -1;
        cs336_numpy_api = (void**)PyCapsule_GetPointer(capsule, NULL);
        Py_DECREF(capsule);  /* The module keeps it. */
        return cs336_numpy_api ? 0 : -1;
    }

    /* PyArray_New: a new array of one dimension, which owns its memory. */
    static PyObject* cs336_new_array(Py_ssize_t size, int type_number) {
        typedef PyObject* (*New)(PyTypeObject*, int, const Py_ssize_t*, int, const Py_ssize_t*,
                                 void*, int, int, PyObject*);
        const New make = (New)cs336_numpy_api[93];
        PyTypeObject* const array_type = (PyTypeObject*)cs336_numpy_api[2];
        return make(array_type, 1, &size, type_number, NULL, NULL, 0, 0, NULL);
    }

    /* The first field after the header of an array is the address of its elements. */
    static void* cs336_elements(PyObject* array) { return *(void**)((PyObject*)array + 1); }
    """
    void** cs336_numpy_api
    int cs336_read_numpy_api(object module) except -1
    object cs336_new_array(Py_ssize_t size, int type_number)
    void* elements_of "cs336_elements" (object array)


cdef inline object new_array(Py_ssize_t size, int type_number):
    """Return an uninitialized array of one dimension; `type_number` is `dtype.num`."""
    if cs336_numpy_api == NULL:
        try:
            from numpy._core import _multiarray_umath as module
        except ImportError:  # NumPy 1
            from numpy.core import _multiarray_umath as module
        cs336_read_numpy_api(module)
    return cs336_new_array(size, type_number)


cdef inline object array_of(const void* elements, Py_ssize_t size, int type_number,
                            size_t element_size):
    """Return a copy of elements as an array."""
    array = new_array(size, type_number)
    memcpy(elements_of(array), elements, size * element_size)
    return array
