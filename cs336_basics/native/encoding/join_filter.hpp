// JoinFilter: finds the boundaries where a word can be cut before it is merged.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/compiler.hpp"
#include "base/id_map.hpp"

namespace cs336 {

// Expands a mask with one bit for each of six bytes into a mask of all bits in these bytes.
struct WindowMasks {
    uint64_t widened[64];
    constexpr WindowMasks() : widened() {
        for (int mask = 0; mask < 64; ++mask) {
            for (int byte = 0; byte < 6; ++byte) {
                if (mask >> byte & 1) widened[mask] |= uint64_t{0xFF} << 8 * byte;
            }
        }
    }
};

inline constexpr WindowMasks WINDOW_MASKS;

// If no merge joins a token that ends at a boundary between two bytes with a token that starts
// there, the bytes before and after the boundary merge independently. The filter finds most of
// these boundaries.
//
// It identifies a merge by up to three bytes at the end of its left token and up to three bytes at
// the start of its right token; three bytes are one character in most scripts. In Chinese or
// Japanese, where a pre-token is a phrase, the segments between such boundaries are often words,
// which recur.
class JoinFilter {
  public:
    // The three bytes before a boundary and the three bytes after it, with the first byte lowest.
    // The highest two bytes, and bytes outside the word, may have any value.
    using Window = uint64_t;

    // `byte_ids` and `merges` are the same as for MergeTable. Merges may be in any order. A merge
    // is ignored if one of its tokens is neither a byte nor the result of a merge.
    JoinFilter(const uint32_t* byte_ids, const uint32_t* merges, size_t num_merges,
               uint32_t absent_id, uint64_t multiplier)
        : multiplier_(multiplier), masks_(size_t{1} << 16) {
        int bits = MIN_BITS;
        while ((size_t{1} << bits) < BITS_PER_MERGE * num_merges) ++bits;
        shift_ = 64 - bits;
        known_.resize(size_t{1} << (bits - 6));
        insert_all(byte_ids, merges, num_merges, absent_id);
    }

    // Whether a merge may join the bytes before and after a boundary. Even if none does, the result
    // is true for a few percent of all windows.
    CS336_INLINE bool may_join(Window window) const {
        const Mask mask = masks_[window >> 16 & 0xFFFF];
        const uint64_t bit = bit_of(window & widened(mask));
        return (known_[bit >> 6] >> (bit & 63) & 1) & (mask != 0);
    }

  private:
    static constexpr int MIN_BITS = 10;
    static constexpr size_t BITS_PER_MERGE = 8;

    // A bit for each byte of a window, set if the byte must be compared because it is part of the
    // tokens in every merge that joins the two middle bytes. 0 if there is no such merge.
    using Mask = uint8_t;
    static uint64_t widened(Mask mask) { return WINDOW_MASKS.widened[mask]; }

    uint64_t bit_of(uint64_t bytes) const { return bytes * multiplier_ >> shift_; }

    // The first three bytes of a token, and its last three bytes in reverse order.
    struct Ends {
        uint8_t length;
        uint8_t first[3], last[3];
    };

    static Ends joined(const Ends& left, const Ends& right) {
        Ends ends{uint8_t(std::min(3, left.length + right.length)), {}, {}};
        for (int i = 0; i < ends.length; ++i) {
            ends.first[i] = i < left.length ? left.first[i] : right.first[i - left.length];
            ends.last[i] = i < right.length ? right.last[i] : left.last[i - right.length];
        }
        return ends;
    }

    struct Join {
        Window window;
        Mask mask;
    };

    static Join join_of(const Ends& left, const Ends& right) {
        Join join{0, 0};
        const auto add = [&join](int position, uint8_t byte) {
            join.window |= Window(byte) << 8 * position;
            join.mask |= Mask(1 << position);
        };
        for (int i = 0; i < left.length; ++i) add(2 - i, left.last[i]);
        for (int i = 0; i < right.length; ++i) add(3 + i, right.first[i]);
        return join;
    }

    void insert(const std::vector<Join>& joins) {
        for (const Join& join : joins) {
            Mask& mask = masks_[join.window >> 16 & 0xFFFF];
            mask = mask ? mask & join.mask : join.mask;
        }
        for (const Join& join : joins) {
            const Mask mask = masks_[join.window >> 16 & 0xFFFF];
            const uint64_t bit = bit_of(join.window & widened(mask));
            known_[bit >> 6] |= uint64_t{1} << (bit & 63);
        }
    }

    void insert_all(const uint32_t* byte_ids, const uint32_t* merges, size_t num_merges,
                    uint32_t absent_id) {
        uint32_t max_id = 0;
        const size_t num_ids = 256 + 3 * num_merges;
        for (int byte = 0; byte < 256; ++byte) {
            if (byte_ids[byte] != absent_id) max_id = std::max(max_id, byte_ids[byte]);
        }
        for (size_t i = 0; i < 3 * num_merges; ++i) max_id = std::max(max_id, merges[i]);
        IdMap<Ends> ends(num_ids, max_id, multiplier_);
        for (int byte = 0; byte < 256; ++byte) {
            if (byte_ids[byte] != absent_id) {
                ends.insert(byte_ids[byte], {1, {uint8_t(byte)}, {uint8_t(byte)}});
            }
        }
        // A merge waits until both of its tokens are known.
        std::unordered_map<uint32_t, std::vector<uint32_t>, SeededIdHash> waiting(
            16, SeededIdHash{multiplier_});
        std::vector<uint32_t> ready;
        std::vector<Join> joins;
        joins.reserve(num_merges);
        for (size_t next = 0; next < num_merges; ++next) {
            ready.assign(1, uint32_t(next));
            while (!ready.empty()) {
                const uint32_t* const merge = merges + 3 * size_t(ready.back());
                const Ends *const left = ends.find(merge[0]), *const right = ends.find(merge[1]);
                if (!left || !right) {
                    waiting[merge[left ? 1 : 0]].push_back(ready.back());
                    ready.pop_back();
                    continue;
                }
                ready.pop_back();
                joins.push_back(join_of(*left, *right));
                if (!ends.insert(merge[2], joined(*left, *right))) continue;
                const auto freed = waiting.find(merge[2]);
                if (freed == waiting.end()) continue;
                ready.insert(ready.end(), freed->second.begin(), freed->second.end());
                waiting.erase(freed);
            }
        }
        insert(joins);
    }

    const uint64_t multiplier_;
    int shift_;
    std::vector<Mask> masks_;      // by the two middle bytes
    std::vector<uint64_t> known_;  // a bit for every hash of the compared bytes
};

}  // namespace cs336
