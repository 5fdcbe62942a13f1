// JoinFilter: finds the boundaries where a word can be cut before it is merged.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/compiler.hpp"
#include "unicode/text_view.hpp"

namespace cs336 {

// The bytes before and after the boundary between the two tokens of a merge, as in
// JoinFilter::Window, and a bit for each byte that is part of the tokens.
struct Join {
    uint64_t window = 0;
    uint8_t mask = 0;
};

inline Join join_of(TextSpan left, TextSpan right) {
    Join join;
    const auto add = [&join](size_t position, uint8_t byte) {
        join.window |= uint64_t(byte) << 8 * position;
        join.mask |= uint8_t(1 << position);
    };
    for (size_t i = 0; i < std::min<size_t>(3, left.size); ++i) {
        add(2 - i, left.data[left.size - 1 - i]);
    }
    for (size_t i = 0; i < std::min<size_t>(3, right.size); ++i) add(3 + i, right.data[i]);
    return join;
}

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

// What a byte is, for cutting lines into words. Bytes beyond ASCII are mostly letters.
enum ByteKind { LETTER, DIGIT, SPACE, OTHER };
constexpr int NUM_BYTE_KINDS = 4;

struct KindPair {
    ByteKind before, after;
};

CS336_INLINE ByteKind kind_of(uint8_t byte) {
    if (byte >= 0x80 || uint8_t((byte | 0x20) - 'a') < 26) return LETTER;
    if (uint8_t(byte - '0') < 10) return DIGIT;
    return byte == ' ' ? SPACE : OTHER;
}

// Says where a run of at least two spaces and the bytes x and y after it can be cut before it is
// merged, although merges join spaces: in source code, most lines start with such a run, and a run
// and the word after it would be a word of its own.
//
// This is known only if the merge of two single spaces has the lowest rank of all merges that join
// a space. Then, pairs of spaces are merged first, from the left.
// - If the number of spaces is even, the last token of the run ends with two spaces, so the run
//   ends there unless a merge joins such a token with x.
// - Otherwise, the last space is alone. It joins x if their merge has a lower rank than those that
//   join spaces with it, and than those that join x with a token that starts with y. Then, the rest
//   of the run ends before it unless a merge joins spaces with a token that starts with " x".
class SpaceRuns {
  public:
    // A bit for each place: before the last space, and after it.
    enum Cut { NOWHERE = 0, BEFORE_LAST = 1, AFTER_LAST = 2 };

    // `joins` contains the join of each merge, ordered by rank.
    explicit SpaceRuns(const std::vector<Join>& joins) {
        const auto byte = [](const Join& join, int i) { return uint8_t(join.window >> 8 * i); };
        const auto is_single = [](const Join& join, int next) { return !(join.mask >> next & 1); };
        const auto first = std::find_if(joins.begin(), joins.end(), [byte](const Join& join) {
            return byte(join, 2) == ' ' || byte(join, 3) == ' ';
        });
        exist_ = first != joins.end() && byte(*first, 2) == ' ' && byte(*first, 3) == ' ' &&
                 is_single(*first, 1) && is_single(*first, 4);
        if (!exist_) return;
        const uint32_t no_rank = UINT32_MAX;
        uint32_t with_spaces = no_rank;  // the lowest rank of spaces and the last space
        std::vector<uint32_t> with_space(256, no_rank);     // the rank of the last space and x
        std::vector<uint32_t> with_next(1 << 16, no_rank);  // the lowest of x and a token with y
        for (auto join = joins.begin(); join != joins.end(); ++join) {
            const uint32_t rank = uint32_t(join - joins.begin());
            const uint8_t left = byte(*join, 2), right = byte(*join, 3);
            const bool is_one_byte = is_single(*join, 1);
            if (left != ' ') {
                uint32_t& lowest = with_next[left << 8 | right];
                if (is_one_byte) lowest = std::min(lowest, rank);
            } else if (right != ' ') {
                if (!is_one_byte) joins_after_[right] |= byte(*join, 1) == ' ';
                if (is_one_byte && is_single(*join, 4)) {
                    with_space[right] = std::min(with_space[right], rank);
                }
            } else if (!is_single(*join, 4)) {
                joins_before_[byte(*join, 4)] = true;
            } else if (join != first) {
                with_spaces = std::min(with_spaces, rank);
            }
        }
        is_first_.resize((1 << 16) / 64);
        for (size_t pair = 0; pair < with_next.size(); ++pair) {
            const bool is_first = with_space[pair >> 8] < std::min(with_spaces, with_next[pair]);
            is_first_[pair >> 6] |= uint64_t{is_first} << (pair & 63);
        }
    }

    // Whether any run may be cut.
    bool exist() const { return exist_; }

    // Where to cut at least two spaces and what follows; x is no space.
    CS336_INLINE Cut cut(size_t num_spaces, uint8_t x, uint8_t y) const {
        // Without a branch, because it would be unpredictable.
        const unsigned pair = unsigned(x) << 8 | y;
        const bool is_first = is_first_[pair >> 6] >> (pair & 63) & 1;
        const unsigned before = is_first & !joins_before_[x];
        const unsigned after = !joins_after_[x];
        return Cut(num_spaces % 2 ? before * BEFORE_LAST : after * AFTER_LAST);
    }

  private:
    bool exist_ = false;
    bool joins_after_[256] = {};   // whether a merge joins a token that ends with "  " and x
    bool joins_before_[256] = {};  // whether a merge joins spaces and a token that starts with " x"
    std::vector<uint64_t> is_first_;  // a bit for x and y: whether " " and x are merged first
};

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

    // `joins` contains the join of each merge, ordered by rank.
    JoinFilter(const std::vector<Join>& joins, uint64_t multiplier)
        : multiplier_(multiplier), masks_(size_t{1} << 16), spaces_(joins) {
        int bits = MIN_BITS;
        while ((size_t{1} << bits) < BITS_PER_MERGE * joins.size()) ++bits;
        shift_ = 64 - bits;
        known_.resize(size_t{1} << (bits - 6));
        for (const Join& join : joins) {
            Mask& mask = masks_[join.window >> 16 & 0xFFFF];
            mask = mask ? mask & join.mask : join.mask;
            meets_[(join.window >> 16 & 0xFFFF) >> 6] |= uint64_t{1} << (join.window >> 16 & 63);
            add_kinds({kind_of(uint8_t(join.window >> 16)), kind_of(uint8_t(join.window >> 24))});
        }
        for (const Join& join : joins) {
            const Mask mask = masks_[join.window >> 16 & 0xFFFF];
            const uint64_t bit = bit_of(join.window & widened(mask));
            known_[bit >> 6] |= uint64_t{1} << (bit & 63);
        }
    }

    // Whether a merge may join the bytes before and after a boundary. Even if none does, the result
    // is true for a few percent of all windows.
    CS336_INLINE bool may_join(Window window) const {
        const Mask mask = masks_[window >> 16 & 0xFFFF];
        const uint64_t bit = bit_of(window & widened(mask));
        return (known_[bit >> 6] >> (bit & 63) & 1) & (mask != 0);
    }

    // Whether any merge joins these two bytes. Words rarely end where the result is true, so this
    // is the faster question there, although its answer is less exact.
    CS336_INLINE bool may_meet(uint8_t before, uint8_t after) const {
        const unsigned bytes = before | unsigned(after) << 8;
        return meets_[bytes >> 6] >> (bytes & 63) & 1;
    }

    // The kinds of two bytes that a merge joins, where a part of a line may end between them.
    const std::vector<KindPair>& meeting_kinds() const { return meeting_kinds_; }

    const SpaceRuns& spaces() const { return spaces_; }

  private:
    static constexpr int MIN_BITS = 10;
    static constexpr size_t BITS_PER_MERGE = 8;

    // A bit for each byte of a window, set if the byte must be compared because it is part of the
    // tokens in every merge that joins the two middle bytes. 0 if there is no such merge.
    using Mask = uint8_t;
    static uint64_t widened(Mask mask) { return WINDOW_MASKS.widened[mask]; }

    void add_kinds(KindPair kinds) {
        // A part ends between bytes of different kinds, but after a space, only before another.
        if (kinds.before == SPACE ? kinds.after != SPACE : kinds.before == kinds.after) return;
        for (const KindPair& other : meeting_kinds_) {
            if (other.before == kinds.before && other.after == kinds.after) return;
        }
        meeting_kinds_.push_back(kinds);
    }

    uint64_t bit_of(uint64_t bytes) const { return bytes * multiplier_ >> shift_; }

    const uint64_t multiplier_;
    int shift_;
    uint64_t meets_[(1 << 16) / 64] = {};  // a bit for every two middle bytes
    std::vector<KindPair> meeting_kinds_;
    std::vector<Mask> masks_;              // by the two middle bytes
    std::vector<uint64_t> known_;          // a bit for every hash of the compared bytes
    const SpaceRuns spaces_;
};

}  // namespace cs336
