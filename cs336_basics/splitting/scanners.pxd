"""Cython declarations of the scanners for split patterns."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport make_shared, shared_ptr

from cs336_basics._support.simd_levels cimport SimdLevel


cdef extern from "scanning/scanner.hpp" namespace "cs336" nogil:
    cdef struct SplitTables:
        const uint16_t* transitions
        size_t num_states, num_columns
        const uint16_t* block_of
        const uint8_t* blocks
        size_t num_blocks
        const uint8_t* safe_cuts
        const uint8_t* threes
        cbool matches_all_text
        size_t trouble, num_reader_states
        const uint32_t* move_ends
        const uint16_t* moves
        const uint8_t* accepts
        cbool starts_again

    cdef cppclass ScanState:
        ScanState(size_t num_states) except +

    cdef cppclass SplitProgram:
        SplitProgram(const SplitTables& tables) except +

    shared_ptr[const SplitProgram] named_program(const char* name) except +

    cdef cppclass Scanner:
        Scanner()
        Scanner(shared_ptr[const SplitProgram] program, SimdLevel simd_level)
        size_t num_states()
        size_t fill(const uint8_t* text, size_t size, size_t& position, uint32_t* ends,
                    ScanState& state) except +
        size_t next(const uint8_t* text, size_t size, size_t i, ScanState& state) except +


cdef inline shared_ptr[const SplitProgram] make_program(program) except *:
    """Convert a `split_program.SplitProgram` to the C++ class of the same name."""
    cdef SplitTables tables
    cdef const uint16_t[::1] transitions = program.transitions
    cdef const uint16_t[::1] block_of = program.block_of
    cdef const uint8_t[::1] blocks = program.blocks
    cdef const uint8_t[::1] safe_cuts = program.safe_cuts
    cdef const uint8_t[::1] threes
    tables.transitions = &transitions[0]
    tables.num_columns = program.num_columns
    tables.num_states = transitions.shape[0] // tables.num_columns
    assert block_of.shape[0] == 0x110000 // 64 and blocks.shape[0] % 64 == 0
    assert <size_t>safe_cuts.shape[0] == tables.num_columns * tables.num_columns
    tables.block_of = &block_of[0]
    tables.blocks = &blocks[0]
    tables.num_blocks = blocks.shape[0] // 64
    tables.safe_cuts = &safe_cuts[0]
    tables.threes = NULL
    if program.threes is not None:
        threes = program.threes
        assert <size_t>threes.shape[0] == tables.num_columns
        tables.threes = &threes[0]
    tables.matches_all_text = program.matches_all_text
    tables.trouble = 0
    tables.num_reader_states = 0
    tables.move_ends = NULL
    tables.moves = NULL
    tables.accepts = NULL
    tables.starts_again = True
    cdef const uint32_t[::1] move_ends
    cdef const uint16_t[::1] moves
    cdef const uint8_t[::1] accepts
    reader = program.reader
    if reader is not None:
        move_ends, moves, accepts = reader.move_ends, reader.moves, reader.accepts
        assert <size_t>move_ends.shape[0] == accepts.shape[0] * (tables.num_columns - 1)
        assert moves.shape[0] == move_ends[move_ends.shape[0] - 1]
        tables.trouble = reader.trouble
        tables.num_reader_states = accepts.shape[0]
        tables.move_ends = &move_ends[0]
        tables.moves = &moves[0]
        tables.accepts = &accepts[0]
        tables.starts_again = reader.starts_again
    return <shared_ptr[const SplitProgram]>make_shared[SplitProgram](tables)


cdef inline Scanner make_scanner(pattern, SimdLevel simd_level) except *:
    """Return the scanner for a pattern (name, regular expression, or SplitProgram).

    Raises:
        ValueError: If the pattern cannot be compiled.
    """
    from cs336_basics.splitting._scanner import program_of
    from cs336_basics.splitting.patterns.named_patterns import pattern_name

    cdef bytes name
    if isinstance(pattern, str) and pattern_name(pattern) is not None:
        name = pattern_name(pattern).encode()
        return Scanner(named_program(name), simd_level)
    return Scanner(make_program(program_of(pattern)), simd_level)
