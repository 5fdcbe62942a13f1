"""The SIMD levels of the compiled modules (`native/base/simd_level.hpp`), and their names."""


cdef extern from "base/simd_level.hpp" namespace "cs336" nogil:
    enum class SimdLevel:
        pass

    int NUM_SIMD_LEVELS
    const char* SIMD_LEVEL_NAMES[]
    bint has_simd_level(SimdLevel simd_level)
    SimdLevel best_simd_level()


cdef inline dict available_levels():
    """Return a mapping of name -> SimdLevel, for the levels that this build and CPU support."""
    return {
        SIMD_LEVEL_NAMES[i].decode(): i
        for i in range(NUM_SIMD_LEVELS) if has_simd_level(<SimdLevel>i)
    }


cdef inline str default_level():
    """Return the name of the level that is used by default."""
    return SIMD_LEVEL_NAMES[<int>best_simd_level()].decode()


cdef inline SimdLevel simd_level_of(name) except *:
    """Return the SIMD level with the given name, or the default level if it is None."""
    if name is None:
        return best_simd_level()
    levels = available_levels()
    if name not in levels:
        from cs336_basics._support.errors import InputError

        problem = f"must be one of {', '.join(levels)}, got {name!r}"
        raise InputError(problem, argument="simd_level")
    return <SimdLevel><int>levels[name]
