// self_made_tokens: the tokens that merging makes from their own bytes, found without merging.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "word_merging/merge_table.hpp"

namespace cs336 {

// Return a flag for each id, which is set only if merging the bytes of the token certainly makes
// the token. In a trained vocabulary, it is set for almost all tokens.
//
// Consider a merge of `left` and `right`, both of which their own bytes make, by merges of lower
// ranks. Their bytes, one after the other, make both, unless another merge joins them across the
// boundary first. To find such a merge, undo the merges of the two tokens in the order of their
// ranks, the last one first. After each step, a different pair of symbols meets at the boundary,
// and the rank of this pair must not be below that of the merge that was undone. Of two merges with
// the same rank, the left one is done first.
template <class Id>
std::vector<uint8_t> self_made_tokens(const MergeTable<Id>& table, const uint32_t* merges,
                                      size_t num_merges) {
    size_t num_ids = 0;
    for (size_t i = 0; i < 3 * num_merges; ++i) num_ids = std::max<size_t>(num_ids, merges[i] + 1);
    for (int byte = 0; byte < 256; ++byte) {
        num_ids = std::max<size_t>(num_ids, size_t{table.byte_id(uint8_t(byte))} + 1);
    }
    std::vector<uint8_t> is_self_made(num_ids);
    // One more than the rank of the merge that makes a token; 0 for a byte.
    std::vector<uint32_t> order(num_ids);
    for (int byte = 0; byte < 256; ++byte) is_self_made[table.byte_id(uint8_t(byte))] = 1;
    const auto left_of = [&](uint32_t id) { return merges[3 * (order[id] - 1)]; };
    const auto right_of = [&](uint32_t id) { return merges[3 * (order[id] - 1) + 1]; };
    for (size_t rank = 0; rank < num_merges; ++rank) {
        uint32_t left = merges[3 * rank], right = merges[3 * rank + 1];
        const uint32_t joined = merges[3 * rank + 2];
        bool meets_none = is_self_made[left] && is_self_made[right] && !is_self_made[joined];
        while (meets_none && (order[left] || order[right])) {
            uint32_t limit;  // the lowest rank that a merge across the boundary may have
            if (order[left] > order[right]) {
                limit = order[left] - 1;
                left = right_of(left);
            } else {
                limit = order[right];
                right = left_of(right);
            }
            meets_none = table.rank(Id(left), Id(right)) >= limit;
        }
        if (meets_none) {
            is_self_made[joined] = 1;
            order[joined] = uint32_t(rank + 1);
        }
    }
    return is_self_made;
}

}  // namespace cs336
