// The scanner: text to pre-tokens, in batches, for the patterns `gpt2` and `cl100k`.
//
// It does not read a byte outside [text, text + size), which must be valid UTF-8.

#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/dispatch.hpp"
#include "split_patterns.hpp"

namespace cs336 {

// Call `batch(first, ends, count)` for groups of consecutive pre-tokens: the first one is
// [first, first + ends[0]), the next [first + ends[0], first + ends[1]), ...; or, for one that is
// longer than 4 GiB, `huge(first, length)`.
template <class Pattern, class Batch, class Huge>
void scan_batches(const uint8_t* text, size_t size, SimdLevel simd_level, Batch&& batch, Huge&& huge) {
    const Fill fill = fill_function<Pattern>(simd_level);
    uint32_t ends[BATCH_CAPACITY];
    size_t position = 0;
    while (position < size) {
        const size_t origin = position;
        const size_t count = fill(text, size, position, ends);
        if (count) {
            batch(text + origin, ends, count);
        } else {
            position = Pattern::next(text, size, origin);
            huge(text + origin, position - origin);
        }
    }
}

}  // namespace cs336
