// Gaps: places in the output for ids that a group of merges will give later.

#pragma once

#include <cstddef>
#include <cstring>

#include "base/compiler.hpp"

namespace cs336 {

// Write the ids of the gaps with `write(i, out)`, which returns their end, and shift the ids that
// follow each gap. A gap has a `begin` and a `length`; there must be at least one, and `write` must
// write at most `length` ids. Returns the end of the ids.
template <class Id, class Gap, class Write>
CS336_INLINE Id* close_gaps(const Gap* gaps, size_t num_gaps, Id* end, Write write) {
    Id* out = gaps[0].begin;
    for (size_t i = 0; i < num_gaps; ++i) {
        out = write(i, out);
        const Id* const next = gaps[i].begin + gaps[i].length;
        const size_t num_known = size_t((i + 1 < num_gaps ? gaps[i + 1].begin : end) - next);
        std::memmove(out, next, num_known * sizeof(Id));
        out += num_known;
    }
    return out;
}

}  // namespace cs336
