// WordCache: the ids of pre-tokens and segments. Most words in a text have occurred before.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "base/hashing.hpp"
#include "base/l2_cache.hpp"
#include "base/memory.hpp"
#include "base/word_key.hpp"

namespace cs336 {

// The number of bytes that all caches of a tokenizer may use in total. Threads can share it.
class CacheBudget {
  public:
    explicit CacheBudget(size_t num_bytes)
        : is_zero_(num_bytes == 0), available_(int64_t(std::min(num_bytes, MAX))) {}

    bool is_zero() const { return is_zero_; }

    // Take bytes from the budget. Returns false if it has too few left.
    bool take(size_t num_bytes) {
        if (available_.fetch_sub(int64_t(num_bytes)) >= int64_t(num_bytes)) return true;
        give_back(num_bytes);
        return false;
    }
    void give_back(size_t num_bytes) { available_.fetch_add(int64_t(num_bytes)); }

  private:
    static constexpr size_t MAX = size_t{1} << 62;
    const bool is_zero_;
    std::atomic<int64_t> available_;
};

// The 16 bytes of a key that is not made from a word.
struct WordBytes {
    uint64_t low, high;
};

// The key of a text of at most 8 bytes and the added token after it, which no word has.
inline WordBytes rest_word(const uint8_t* text, size_t length, uint32_t id) {
    uint64_t low = 0;
    for (size_t i = 0; i < length; ++i) low |= uint64_t{text[i]} << 8 * i;
    return {low, uint64_t{WHOLE_KEY} << 56 | uint64_t(length) << 32 | id};
}
inline bool is_rest(const WordKey& key) { return key.high >> 56 == WHOLE_KEY; }
// The bytes of a key that is never stored.
constexpr WordBytes NEVER_STORED = {0, uint64_t{WHOLE_KEY} << 56 | uint64_t{0xFF} << 32};
// The bytes of the key of two such texts, each with its added token, in a row. If the texts have
// more than 4 bytes together, NEVER_STORED.
inline WordBytes two_rests_word(const WordBytes& first, const WordBytes& second) {
    const uint64_t length = first.high >> 32 & 0xFF;
    if (length + (second.high >> 32 & 0xFF) > 4) return NEVER_STORED;
    const uint64_t texts = first.low | second.low << 8 * length;
    return {texts << 32 | uint32_t(first.high), second.high | (length + 1) << 40};
}

// The table uses open addressing. A word of at most 15 bytes and its ids share one 32-byte entry,
// so a hit reads one cache line and stores 16 bytes. A full cache that cannot grow is cleared and
// filled again. This simple rule keeps recent words.
template <class Id>
class WordCache {
  public:
    static constexpr size_t LANES = 16 / sizeof(Id);
    static constexpr size_t MAX_INLINE = LANES - 1;
    static constexpr size_t MAX_WORD = 128;  // longer words rarely occur again

    struct Entry {
        // A short word as in WordKey, or the hash and length of a long word. If the ids are in a
        // record, FAR_BIT of `high` differs from the key, so that is_near compares only 16 bytes.
        uint64_t low, high;
        // At most MAX_INLINE ids and their number, or the address of a record.
        union {
            Id lanes[LANES];
            struct {
                const uint8_t* record;
                uint32_t num_ids;
            } far;
        };
        Id count() const { return lanes[MAX_INLINE]; }
        // Whether this is the entry of a key and contains its ids.
        CS336_INLINE bool is_near(const WordKey& key) const {
#if defined(CS336_X86)
            const __m128i equal =
                _mm_cmpeq_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(&low)),
                               _mm_loadu_si128(reinterpret_cast<const __m128i*>(&key.low)));
            return _mm_movemask_epi8(equal) == 0xFFFF;
#else
            return ((low ^ key.low) | (high ^ key.high)) == 0;
#endif
        }
        // Whether this is the entry of a key, or of a long word with the same hash and length.
        bool matches(const WordKey& key) const {
            return low == key.low && ((high ^ key.high) & ~FAR_BIT) == 0;
        }
        // The highest byte of a key is a length of at most 15, or 16 (see rest_word), or 0xFF.
        bool is_far() const { return high >> 62 != 0; }
        bool is_long() const { return high >> 63 != 0; }
    };
    static_assert(sizeof(Entry) == 32, "two entries to a cache line");

    // Allocates nothing before the first word, because many tokenizers are never used. Ownership of
    // the budget is shared, because Python frees an encoder before the encoder's workers.
    explicit WordCache(std::shared_ptr<CacheBudget> budget,
                       const HashSeed& seed = process_hash_seed())
        : seed_(seed), budget_(std::move(budget)) {}
    WordCache(const WordCache&) = delete;
    ~WordCache() {
        clear_records();
        budget_->give_back(table_.size() * sizeof(Entry) + (seen_ ? NUM_SEEN : 0));
    }

    // Whether the cache never stores words.
    bool is_off() const { return budget_->is_zero(); }
    const HashSeed& seed() const { return seed_; }

    // The key of a word. Bytes from `readable_end` on are not read.
    CS336_INLINE WordKey key(const uint8_t* word, size_t length,
                             const uint8_t* readable_end) const {
        WordKey key;
        if (length <= MAX_SHORT_WORD && readable_end - word >= ptrdiff_t(WORD_PADDING)) {
            make_short_key(seed_, word, length, key);
        } else {
            key = rare_key(word, length);
        }
        return key;
    }

    // Like `key`, but for a long word, or for a short word at the end of the text, where 16 bytes
    // cannot be read at once.
    CS336_NOINLINE WordKey rare_key(const uint8_t* word, size_t length) const {
        if (length > MAX_WORD) return {0, uint64_t{0xFF} << 56 | length, 0};  // is never stored
        if (length > MAX_SHORT_WORD) {
            WordKey key = make_long_key(seed_, word, length);
            key.low = key.hash;
            return key;
        }
        uint8_t padded[WORD_PADDING] = {};
        std::memcpy(padded, word, length);
        return make_short_key(seed_, padded, length);
    }

    // Whether the table is so large that prefetching its entries pays off. If half of it fits into
    // the L2 cache, most hits are in that half, and prefetching costs more than it gains.
    bool is_large() const { return table_.size() * sizeof(Entry) > large_size_; }

    // The values that a loop needs to find the first slot of a word, copied so that they stay in
    // registers. Valid until the next insertion.
    struct View {
        const Entry* entries;
        int shift;
        const Entry& at(const WordKey& key) const { return entries[key.hash >> shift]; }
    };
    View view() const {
        static const Entry NOTHING[2] = {};  // equals no key, because no word has length 0
        return table_.size() ? View{&table_[0], shift_} : View{NOTHING, 63};
    }

    // The entry of a word, or null.
    const Entry* find(const WordKey& key, const uint8_t* word) const {
        if (size_ == 0) return nullptr;
        for (size_t slot = key.hash >> shift_;; slot = (slot + 1) & (table_.size() - 1)) {
            const Entry& entry = table_[slot];
            if (entry.high == 0) return nullptr;
            if (entry.matches(key) &&
                (!key.is_long() || !std::memcmp(entry.far.record, word, key.length()))) {
                return &entry;
            }
        }
    }

    // Prefetch the record of a long word that is in its first slot.
    void prefetch_record(const WordKey& key) const {
        const Entry& entry = view().at(key);
        if (!key.is_long() || entry.low != key.low) return;
        for (size_t i = 0; i < 2; ++i) CS336_PREFETCH(entry.far.record + 64 * i);
    }

    static const Id* ids(const Entry& entry, const WordKey& key) {
        if (!entry.is_far()) return entry.lanes;
        return reinterpret_cast<const Id*>(entry.far.record + ids_offset(key));
    }
    static size_t num_ids(const Entry& entry) {
        return entry.is_far() ? entry.far.num_ids : entry.count();
    }
    // Copy the ids of an entry to `out`. Returns their end.
    static CS336_INLINE Id* copy_ids(const Entry& entry, const WordKey& key, Id* out) {
        const Id* const first = ids(entry, key);
        return std::copy(first, first + num_ids(entry), out);
    }

    // Whether this function has probably been called with the word before. It remembers a few
    // hundred thousand words and is wrong for one new word in 128. A word that is cheap to encode
    // is inserted only when it occurs again: most Chinese phrases occur once, and storing them
    // costs more time than it saves. While the table is small, the result is always true.
    bool was_seen(const WordKey& key) {
        if (table_.size() * sizeof(Entry) < NUM_SEEN) return true;
        if (!seen_) {
            if (!budget_->take(NUM_SEEN)) return true;
            seen_.reset(new (std::nothrow) uint8_t[NUM_SEEN]());
            if (!seen_) {
                budget_->give_back(NUM_SEEN);
                return true;
            }
        }
        uint8_t& seen = seen_[index_of_seen(key)];
        const uint8_t next_bits = uint8_t(key.hash >> (56 - SEEN_BITS)) | 1;
        const bool equal = seen == next_bits;
        seen = next_bits;
        return equal;
    }

    // Prefetch the byte that `was_seen` reads.
    void prefetch_seen(const WordKey& key) const {
        if (seen_) CS336_PREFETCH(&seen_[index_of_seen(key)]);
    }

    // Insert the ids of a word that is not in the cache, if the budget allows.
    void insert(const WordKey& key, const uint8_t* word, const Id* ids, size_t num_ids) {
        if (key.length() > MAX_WORD || budget_->is_zero() || !make_room()) return;
        Entry added;
        added.low = key.low;
        added.high = key.high;
        std::memset(added.lanes, 0, sizeof(added.lanes));
        if (!key.is_long() && num_ids <= MAX_INLINE) {
            std::copy(ids, ids + num_ids, added.lanes);
            added.lanes[MAX_INLINE] = Id(num_ids);
        } else {
            uint8_t* record = new_record(ids_offset(key) + num_ids * sizeof(Id));
            if (!record) return;
            if (key.is_long()) std::memcpy(record, word, key.length());
            std::memcpy(record + ids_offset(key), ids, num_ids * sizeof(Id));
            added.far.record = record;
            added.far.num_ids = uint32_t(num_ids);
            added.high ^= FAR_BIT;
        }
        put(table_, shift_, added, key.hash);
        ++size_;
    }

  private:
    static constexpr uint64_t FAR_BIT = uint64_t{1} << 62;
    static constexpr int FIRST_BITS = 12, SMALLEST_BITS = 4;
    static constexpr int SEEN_BITS = 20;
    static constexpr size_t NUM_SEEN = size_t{1} << SEEN_BITS;
    static constexpr size_t FIRST_BLOCK = size_t{1} << 14, LAST_BLOCK = size_t{1} << 20;

    // Memory for records.
    struct Block {
        std::unique_ptr<uint8_t[]> bytes;
        size_t size;
    };

    static size_t index_of_seen(const WordKey& key) { return key.hash >> (64 - SEEN_BITS); }

    // The offset of the ids in a record, after the bytes of a long word.
    static size_t ids_offset(const WordKey& key) {
        return key.is_long() ? (key.length() + 3) / 4 * 4 : 0;
    }

    static void put(EntryArray<Entry>& table, int shift, const Entry& entry, uint64_t hash) {
        size_t slot = hash >> shift;
        while (table[slot].high) slot = (slot + 1) & (table.size() - 1);
        table[slot] = entry;
    }

    // Make room for one more word. Returns false if that is impossible.
    bool make_room() {
        // Keep the table at most half full, because in a fuller table many words are not in their
        // first slot. Allow three quarters if there is no memory to grow.
        if (2 * (size_ + 1) <= table_.size() || grow()) return true;
        if (4 * (size_ + 1) > 3 * table_.size()) clear();
        return table_.size() > 0;
    }

    bool grow() {
        // Grow fourfold at first, because a new process soon fills the table and each growth moves
        // all entries.
        int bits = table_.size() ? bits_ + (bits_ < 20 ? 2 : 1) : FIRST_BITS;
        const int least = table_.size() ? bits_ + 1 : SMALLEST_BITS;
        for (; bits >= least; --bits) {
            const size_t num_bytes = (size_t{1} << bits) * sizeof(Entry);
            if (!budget_->take(num_bytes)) continue;
            EntryArray<Entry> larger;
            try {
                larger = EntryArray<Entry>(size_t{1} << bits);
            } catch (const std::bad_alloc&) {
                budget_->give_back(num_bytes);
                continue;
            }
            for (size_t i = 0; i < table_.size(); ++i) {
                const Entry& entry = table_[i];
                if (entry.high) put(larger, 64 - bits, entry, hash_of(entry));
            }
            budget_->give_back(table_.size() * sizeof(Entry));
            table_ = std::move(larger);
            bits_ = bits;
            shift_ = 64 - bits;
            return true;
        }
        return false;
    }

    uint64_t hash_of(const Entry& entry) const {
        return entry.is_long() ? entry.low : hash_16(seed_, entry.low, entry.high & ~FAR_BIT);
    }

    void clear() {
        if (size_) std::memset(static_cast<void*>(&table_[0]), 0, table_.size() * sizeof(Entry));
        size_ = 0;
        clear_records();
    }

    void clear_records() {
        for (const Block& block : blocks_) budget_->give_back(block.size);
        blocks_.clear();
        available_ = 0;
    }

    // Return memory for a record, or null if the budget has too little left.
    uint8_t* new_record(size_t size) {
        size = (size + 7) / 8 * 8;
        if (size > available_) {
            const size_t wanted =
                blocks_.empty() ? FIRST_BLOCK : std::min(2 * blocks_.back().size, LAST_BLOCK);
            // A record always fits into the first block.
            if (!budget_->take(wanted)) {
                // Clearing would free no records, so keep the words in the table.
                if (blocks_.empty()) return nullptr;
                clear();
                if (!budget_->take(FIRST_BLOCK)) return nullptr;
                add_block(FIRST_BLOCK);
            } else {
                add_block(wanted);
            }
        }
        uint8_t* record = next_;
        next_ += size;
        available_ -= size;
        return record;
    }

    void add_block(size_t size) {
        blocks_.push_back({std::unique_ptr<uint8_t[]>(new uint8_t[size]), size});
        next_ = blocks_.back().bytes.get();
        available_ = size;
    }

    const HashSeed seed_;
    const std::shared_ptr<CacheBudget> budget_;
    const size_t large_size_ = 2 * l2_cache_size();
    EntryArray<Entry> table_;
    int bits_ = 0, shift_ = 63;
    size_t size_ = 0;
    std::unique_ptr<uint8_t[]> seen_;  // index: first bits of a word's hash; value: the next bits
    std::vector<Block> blocks_;
    uint8_t* next_ = nullptr;  // the free part of the last block
    size_t available_ = 0;     // its size in bytes
};

}  // namespace cs336
