// MergePolicy: three parts of the merge loop that can be taken out without changing any merge.
//
// benchmarks/stages/merge_variants.cpp instantiates the loop with other policies to measure what
// each part gains. The library uses only this one.

#pragma once

#include <cstdint>

#include "base/compiler.hpp"

namespace cs336 {

struct MergePolicy {
    // The first threshold, given a guess of the count of the last merged pair. 0 keeps all pairs.
    static int64_t threshold(int64_t guess) { return guess; }

    // Words are laid out by descending key. With equal keys, they stay in the given order.
    static int64_t layout_key(int64_t count) { return count; }

    // Load memory into the CPU cache before it is used.
    static void prefetch(const void* address) { CS336_PREFETCH(address); }
};

}  // namespace cs336
