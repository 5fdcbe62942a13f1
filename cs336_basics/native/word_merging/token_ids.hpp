// TokenIds: finds the id of a token by its bytes.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "base/compiler.hpp"
#include "base/hashing.hpp"
#include "base/memory.hpp"
#include "base/word_key.hpp"
#include "unicode/text_view.hpp"

namespace cs336 {

class TokenIds {
  public:
    static constexpr uint32_t NO_ID = UINT32_MAX;

    explicit TokenIds(size_t num_tokens, const HashSeed& seed = process_hash_seed()) : seed_(seed) {
        int bits = 4;
        while ((size_t{1} << bits) < 2 * num_tokens) ++bits;
        shift_ = 64 - bits;
        slots_.reserve(size_t{1} << bits);
        ask_for_huge_pages(slots_.data(), slots_.capacity() * sizeof(Slot));
        slots_.resize(size_t{1} << bits);
    }

    // The id of a token, or NO_ID.
    uint32_t find(const uint8_t* bytes, size_t length) const {
        return slots_[slot_of(key_of(bytes, length))].id;
    }

    // Like `find`, for at most MAX_SHORT_WORD bytes. WORD_PADDING bytes after the first must be
    // readable.
    CS336_INLINE uint32_t find_short(const uint8_t* bytes, size_t length) const {
        WordKey key;
        make_short_key(seed_, bytes, length, key);
        return slots_[slot_of(key)].id;
    }

    // Like `find`, for the key of at most MAX_SHORT_WORD bytes.
    CS336_INLINE uint32_t find(const WordKey& key) const { return slots_[slot_of(key)].id; }
    // Prefetch the first slot of a key.
    CS336_INLINE void prefetch(const WordKey& key) const {
        CS336_PREFETCH(&slots_[key.hash >> shift_]);
    }

    // Add tokens, at most `num_tokens`, whose bytes must outlive this object. Returns false if two
    // are the same or one is empty.
    bool insert_all(const std::vector<TextSpan>& tokens, const std::vector<uint32_t>& ids) {
        bool are_different = true;
        each_key(
            tokens.size(), [&](size_t i) { return key_of(tokens[i].data, tokens[i].size); },
            [&](size_t i, const WordKey& key) {
                Slot& slot = slots_[slot_of(key)];
                are_different = are_different && slot.id == NO_ID && tokens[i].size;
                slot = {key.low, key.high, ids[i]};
            });
        return are_different;
    }

    // Find the ids of the left, right and joined tokens of merges, given as two tokens for each.
    // Returns false if a token is unknown.
    bool find_merges(const std::vector<TextSpan>& pairs, uint32_t* ids) const {
        std::vector<uint8_t> joined[AHEAD];  // those that the current keys may refer to
        bool are_known = true;
        const auto find_part = [&](size_t i, const WordKey& key) {
            const uint32_t id = slots_[slot_of(key)].id;
            ids[i / 2 * 3 + i % 2] = id;
            are_known = are_known && id != NO_ID;
        };
        each_key(
            pairs.size(), [&](size_t i) { return key_of(pairs[i].data, pairs[i].size); },
            find_part);
        const auto key_of_joined = [&](size_t i) {
            const TextSpan left = pairs[2 * i], right = pairs[2 * i + 1];
            std::vector<uint8_t>& bytes = joined[i % AHEAD];
            bytes.assign(left.data, left.data + left.size);
            bytes.insert(bytes.end(), right.data, right.data + right.size);
            return key_of(bytes.data(), bytes.size());
        };
        each_key(pairs.size() / 2, key_of_joined, [&](size_t i, const WordKey& key) {
            const uint32_t id = slots_[slot_of(key)].id;
            ids[3 * i + 2] = id;
            are_known = are_known && id != NO_ID;
        });
        return are_known;
    }

  private:
    static constexpr size_t AHEAD = 32;

    // The words of a WordKey. An empty slot has no id.
    struct Slot {
        uint64_t low = 0, high = 0;
        uint32_t id = NO_ID;
    };

    // Call `visit(i, key_of(i))` for each i. Slots are fetched into the cache ahead of time,
    // because waiting for the memory would take most of the time.
    template <class KeyOf, class Visit>
    void each_key(size_t count, KeyOf key_of, Visit visit) const {
        WordKey keys[AHEAD];
        for (size_t start = 0; start < count; start += AHEAD) {
            const size_t size = std::min(AHEAD, count - start);
            for (size_t i = 0; i < size; ++i) {
                keys[i] = key_of(start + i);
                CS336_PREFETCH(&slots_[keys[i].hash >> shift_]);
            }
            for (size_t i = 0; i < size; ++i) visit(start + i, keys[i]);
        }
    }

    WordKey key_of(const uint8_t* bytes, size_t length) const {
        if (length > MAX_SHORT_WORD) return make_long_key(seed_, bytes, length);
        uint8_t padded[MAX_SHORT_WORD + 1] = {};
        std::memcpy(padded, bytes, length);
        return make_short_key(seed_, padded, length);
    }

    // The slot of a token, or the empty slot where it belongs.
    size_t slot_of(const WordKey& key) const {
        const size_t mask = slots_.size() - 1;
        size_t i = key.hash >> shift_;
        while (slots_[i].id != NO_ID && !is_same(slots_[i], key)) i = (i + 1) & mask;
        return i;
    }

    static bool is_same(const Slot& slot, const WordKey& key) {
        if (slot.high != key.high) return false;
        if (!key.is_long()) return slot.low == key.low;
        const WordKey other = {slot.low, slot.high, 0};
        return !std::memcmp(other.bytes(), key.bytes(), key.length());
    }

    const HashSeed seed_;
    int shift_;
    std::vector<Slot> slots_;
};

// The tokens that tiktoken would make from the bytes of a token if it lacked the token. It joins
// the adjacent pair whose joined bytes have the lowest rank, the leftmost one of several. `ranks`
// are the ids. Returns the length of the first token if there are two, otherwise 0.
class RankSplitter {
  public:
    explicit RankSplitter(const TokenIds& ranks) : ranks_(ranks), ranks_of_two_(1 << 16) {
        for (size_t i = 0; i < ranks_of_two_.size(); ++i) {
            const uint8_t two[2] = {uint8_t(i), uint8_t(i >> 8)};
            ranks_of_two_[i] = ranks.find(two, 2);
        }
    }

    size_t split(const uint8_t* token, size_t size) {
        if (size <= MAX_SHORT) return split_short(token, size);
        ends_.resize(size);        // the end of the token that starts here, or 0
        before_.resize(size + 1);  // the start of the token that ends here
        for (size_t i = 0; i < size; ++i) {
            ends_[i] = i + 1;
            before_[i + 1] = i;
        }
        size_t count = size;
        for (size_t i = 0; i < size; ++i) push(token, size, i);
        while (!heap_.empty()) {
            const auto [rank, start, end] = heap_.top();
            heap_.pop();
            const size_t middle = ends_[start];
            // One of the two tokens may have been joined since.
            if (middle == 0 || middle >= size || ends_[middle] != end) continue;
            ends_[start] = end;
            ends_[middle] = 0;
            before_[end] = start;
            --count;
            push(token, size, start);
            if (start) push(token, size, before_[start]);
        }
        return count == 2 ? ends_[0] : 0;
    }

  private:
    using Pair = std::tuple<uint32_t, size_t, size_t>;  // rank, start, end
    static constexpr size_t MAX_SHORT = 32;

    // The same for a short token, in arrays: without a heap, which takes most of the time.
    size_t split_short(const uint8_t* token, size_t size) const {
        uint8_t bytes[MAX_SHORT + WORD_PADDING];
        uint8_t starts[MAX_SHORT + 1];  // of the tokens, and the end of the last one
        uint32_t ranks[MAX_SHORT];      // of each token joined with the next one
        size_t count = size;
        std::memcpy(bytes, token, size);
        const auto rank_at = [&](size_t i) {
            const uint8_t* const joined = bytes + starts[i];
            const size_t length = starts[i + 2] - starts[i];
            if (length == size) return TokenIds::NO_ID;
            return length <= MAX_SHORT_WORD ? ranks_.find_short(joined, length)
                                            : ranks_.find(joined, length);
        };
        for (size_t i = 0; i <= size; ++i) starts[i] = uint8_t(i);
        for (size_t i = 0; i + 1 < count; ++i) {
            ranks[i] = ranks_of_two_[bytes[i] | bytes[i + 1] << 8];
        }
        while (count > 2) {
            const size_t i = std::min_element(ranks, ranks + count - 1) - ranks;
            if (ranks[i] == TokenIds::NO_ID) return 0;
            // Token i + 1 becomes part of token i.
            std::copy(starts + i + 2, starts + count + 1, starts + i + 1);
            std::copy(ranks + i + 1, ranks + count - 1, ranks + i);
            --count;
            if (i + 1 < count) ranks[i] = rank_at(i);
            if (i) ranks[i - 1] = rank_at(i - 1);
        }
        return count == 2 ? starts[1] : 0;
    }

    void push(const uint8_t* token, size_t size, size_t start) {
        const size_t middle = ends_[start];
        if (middle >= size) return;
        const size_t end = ends_[middle];
        if (start == 0 && end == size) return;  // the token itself
        const uint32_t rank = ranks_.find(token + start, end - start);
        if (rank != TokenIds::NO_ID) heap_.push({rank, start, end});
    }

    const TokenIds& ranks_;
    std::vector<uint32_t> ranks_of_two_;  // index: the first byte, and 256 times the second
    std::vector<size_t> ends_, before_;
    std::priority_queue<Pair, std::vector<Pair>, std::greater<Pair>> heap_;
};

}  // namespace cs336
