// The SIMD level `scalar`, which finds pre-tokens one by one. The other levels use append_next
// where a pre-token does not end within their 64-byte window.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "scanning/split_program.hpp"

namespace cs336 {

// A batch of pre-tokens is an array of their ends, as offsets from the start of the batch.
constexpr size_t BATCH_CAPACITY = 1024;
constexpr size_t MAX_BATCH_BYTES = size_t{1} << 31;

// Append the end of the pre-token at `position`. Returns false if the end does not fit into 32
// bits; the caller then handles this pre-token alone.
template <class Pattern>
inline bool append_next(const uint8_t* text, size_t size, size_t origin, size_t& position,
                        uint32_t* ends, size_t& count) {
    const size_t end = Pattern::next(text, size, position);
    if (end - origin > UINT32_MAX) return false;
    ends[count++] = uint32_t(end - origin);
    position = end;
    return true;
}

// Append the ends of at most `most` further pre-tokens, which a SplitProgram finds.
inline bool append_next(const SplitProgram& program, const uint8_t* text, size_t size,
                        size_t origin, size_t& position, uint32_t* ends, size_t& count, size_t most,
                        ScanState& state) {
    size_t end = position;
    const size_t capacity = std::min(most, BATCH_CAPACITY - count);
    const size_t found = program.fill(text, size, end, ends + count, capacity, state);
    if (found == 0 || end - origin > UINT32_MAX) return false;
    for (size_t i = 0; i < found; ++i) ends[count + i] += uint32_t(position - origin);
    count += found;
    position = end;
    return true;
}

namespace scalar {

// Every SIMD level has a function `fill`. It writes the ends of the pre-tokens from `position` on,
// moves `position` past the last one, and returns their number; 0 means that the next pre-token is
// longer than 4 GiB. `fill_with` does the same for a pattern with a SplitProgram, which finds the
// pre-tokens that the masks cannot find.
template <class Pattern, class>
size_t fill(const uint8_t* text, size_t size, size_t& position, uint32_t* ends) {
    const size_t origin = position;
    size_t count = 0;
    while (position < size && count < BATCH_CAPACITY &&
           append_next<Pattern>(text, size, origin, position, ends, count)) {
    }
    return count;
}

template <class>
size_t fill_with(const SplitProgram& program, const uint8_t* text, size_t size, size_t& position,
                 uint32_t* ends, ScanState& state) {
    return program.fill(text, size, position, ends, BATCH_CAPACITY, state);
}

}  // namespace scalar

}  // namespace cs336
