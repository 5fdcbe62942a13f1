// The scanner: text to pre-tokens, in batches, for the patterns `gpt2` and `cl100k`.
//
// Every SIMD level gives the same result: that of the regular expressions in patterns.py, run by
// the `regex` module. The scanner reads no byte outside [text, text + size), which must be valid
// UTF-8.

#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/dispatch.hpp"
#include "split_patterns.hpp"

namespace cs336 {

// Call `batch(first, ends, count)` for every batch of consecutive pre-tokens: [first, first +
// ends[0]), [first + ends[0], first + ends[1]), ...; and `huge(first, length)` for a pre-token that
// is longer than 4 GiB. `Pattern` is Gpt2 or Cl100k.
template <class Pattern, class Batch, class Huge>
void scan_batches(const uint8_t* text, size_t size, SimdLevel simd_level, Batch&& batch,
                  Huge&& huge) {
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
