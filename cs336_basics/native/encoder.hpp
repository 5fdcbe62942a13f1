// Byte-pair encoding of text to ids, and back. No Python in here.
//
// The text is cut at its special tokens and scanned into pre-tokens. Most pre-tokens were seen
// before: a table remembers their ids. A new one is merged by rank: of all pairs of neighbours the
// one that was learned first is merged, wherever it stands, until no pair is left (Sennrich, Haddow
// and Birch 2016; Radford et al. 2019). `reference.py` says the same in the plainest way.
//
// Three ideas make it fast:
//
// - A remembered pre-token of at most 15 bytes and its ids share one entry of 32 bytes, so that a
//   hit costs one look at memory, which was asked for some words before, and one store of 16 bytes.
// - A pre-token of usual length is merged in arrays that fit into registers and the first cache.
// - One of any length takes time in proportion to its length: a list of places for every rank.
//
// Everything that depends on the vocabulary alone is immutable and shared by all threads; what
// changes belongs to a worker, which one thread uses at a time.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <queue>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "block_reader.hpp"
#include "compiler.hpp"
#include "failure.hpp"
#include "memory.hpp"
#include "scanner.hpp"
#include "special_tokens.hpp"
#include "thread_pool.hpp"
#include "utf8.hpp"
#include "word_table.hpp"

namespace cs336 {

constexpr uint32_t ABSENT_ID = UINT32_MAX;

// Elements of the output that may be written behind the last id: ids are stored 16 bytes at a time.
constexpr size_t OUTPUT_SLACK = 8;

// A byte of the text has no token in the vocabulary.
struct AbsentByte {
    const uint8_t* place;
};

// --- the merges ----------------------------------------------------------------------------------

// (left id, right id) -> rank, as a flat hash table; rank -> merged id. `Id` is uint16_t where all
// ids fit, which halves the table: it should stay in the second-level cache.
template <class Id>
class Merges {
  public:
    static constexpr uint32_t NO_RANK = UINT32_MAX;

    // `byte_ids`: 256 ids, ABSENT_ID for a byte that the vocabulary lacks. `merges`: three ids for
    // every rank: left, right, merged.
    Merges(const uint32_t* byte_ids, const uint32_t* merges, size_t num_merges) {
        if (num_merges >= NO_RANK) throw std::length_error("too many merges");
        std::copy(byte_ids, byte_ids + 256, byte_ids_);
        has_all_bytes_ = std::find(byte_ids, byte_ids + 256, ABSENT_ID) == byte_ids + 256;
        bits_ = 4;
        while ((size_t{1} << bits_) < 2 * num_merges) ++bits_;
        slots_.assign(size_t{1} << bits_, Slot{0, NO_RANK});
        merged_.resize(num_merges);
        for (size_t rank = 0; rank < num_merges; ++rank) {
            const Pair pair = pair_of(Id(merges[3 * rank]), Id(merges[3 * rank + 1]));
            size_t slot = place_of(pair);
            while (slots_[slot].rank != NO_RANK) slot = (slot + 1) & mask();
            slots_[slot] = {pair, uint32_t(rank)};
            const uint64_t bit = filter_bit(hash(pair));
            filter_[bit >> 6] |= uint64_t{1} << (bit & 63);
            merged_[rank] = Id(merges[3 * rank + 2]);
        }
        in_order_ = ranks_grow(merges, num_merges);
        find_joins(byte_ids, merges, num_merges);
        byte_ranks_.resize(1 << 16);
        for (int left = 0; left < 256; ++left) {
            for (int right = 0; right < 256; ++right) {
                const bool known = byte_ids_[left] != ABSENT_ID && byte_ids_[right] != ABSENT_ID;
                byte_ranks_[left << 8 | right] =
                    known ? rank(Id(byte_ids_[left]), Id(byte_ids_[right])) : NO_RANK;
            }
        }
    }

    uint32_t rank(Id left, Id right) const {
        const Pair pair = pair_of(left, right);
        const uint64_t hashed = hash(pair);
        const uint64_t bit = filter_bit(hashed);
        if (!(filter_[bit >> 6] >> (bit & 63) & 1)) return NO_RANK;
        for (size_t slot = hashed >> (64 - bits_);; slot = (slot + 1) & mask()) {
            const Slot& found = slots_[slot];
            if (found.pair == pair || found.rank == NO_RANK) return found.rank;
        }
    }

    Id merged(uint32_t rank) const { return merged_[rank]; }
    uint32_t byte_id(uint8_t byte) const { return byte_ids_[byte]; }
    uint32_t byte_rank(uint8_t left, uint8_t right) const {
        return byte_ranks_[size_t(left) << 8 | right];
    }
    // Whether any merge joins a token that ends with `left` and one that begins with `right`: if
    // none does, what stands on both sides merges without the other.
    bool joins(uint8_t left, uint8_t right) const {
        return joins_[left][right >> 6] >> (right & 63) & 1;
    }
    bool has_all_bytes() const { return has_all_bytes_; }
    size_t size() const { return merged_.size(); }

    // Whether every merge was learned after those that make its parts, as in all vocabularies that
    // come from training. Then a merge never makes a pair of a lower rank than its own, and pairs
    // can be merged one by one, the lowest rank and of equal ones the leftmost first.
    bool in_order() const { return in_order_; }

  private:
    using Pair = typename std::conditional<sizeof(Id) == 2, uint32_t, uint64_t>::type;
    struct Slot {
        Pair pair;
        uint32_t rank;
    };

    static Pair pair_of(Id left, Id right) { return Pair(left) << (8 * sizeof(Id)) | right; }

    size_t mask() const { return slots_.size() - 1; }

    static uint64_t hash(Pair pair) { return uint64_t(pair) * 0x9E3779B97F4A7C15ull; }
    size_t place_of(Pair pair) const { return hash(pair) >> (64 - bits_); }

    // Most pairs that are looked up have no rank. A bit for each possible hash tells most of them
    // from a few kilobytes, so that the table need not be read.
    static constexpr int FILTER_BITS = 18;
    static uint64_t filter_bit(uint64_t hashed) { return hashed << 20 >> (64 - FILTER_BITS); }

    static bool ranks_grow(const uint32_t* merges, size_t num_merges) {
        std::vector<std::pair<uint32_t, uint32_t>> last_made;  // id, the last rank that makes it
        for (size_t rank = 0; rank < num_merges; ++rank) {
            last_made.emplace_back(merges[3 * rank + 2], uint32_t(rank));
        }
        std::sort(last_made.begin(), last_made.end());
        for (size_t rank = 0; rank < num_merges; ++rank) {
            for (int part = 0; part < 2; ++part) {
                const uint32_t id = merges[3 * rank + part];
                auto after = std::upper_bound(last_made.begin(), last_made.end(),
                                              std::make_pair(id, UINT32_MAX));
                if (after == last_made.begin()) continue;
                --after;
                if (after->first == id && after->second >= rank) return false;
            }
        }
        return true;
    }

    void find_joins(const uint32_t* byte_ids, const uint32_t* merges, size_t num_merges) {
        // id -> first and last byte. Merges in any order may need several rounds; one that is never
        // reached joins nothing.
        std::unordered_map<uint32_t, std::pair<uint8_t, uint8_t>> ends;
        for (int byte = 0; byte < 256; ++byte) {
            if (byte_ids[byte] != ABSENT_ID) ends[byte_ids[byte]] = {uint8_t(byte), uint8_t(byte)};
        }
        for (bool found = true; found;) {
            found = false;
            for (size_t rank = 0; rank < num_merges; ++rank) {
                const auto left = ends.find(merges[3 * rank]), right = ends.find(merges[3 * rank + 1]);
                if (left == ends.end() || right == ends.end()) continue;
                const uint8_t last = left->second.second, first = right->second.first;
                joins_[last][first >> 6] |= uint64_t{1} << (first & 63);
                const auto joined = std::make_pair(left->second.first, right->second.second);
                found |= ends.emplace(merges[3 * rank + 2], joined).second && !in_order_;
            }
        }
    }

    uint32_t byte_ids_[256];
    uint64_t joins_[256][4] = {};
    bool has_all_bytes_;
    int bits_;
    std::vector<Slot> slots_;
    std::vector<Id> merged_;
    std::vector<uint32_t> byte_ranks_;
    uint64_t filter_[(size_t{1} << FILTER_BITS) / 64] = {};
    bool in_order_;
};

// --- one pre-token -------------------------------------------------------------------------------

template <class Id>
class WordMerger {
  public:
    // A merge in progress looks at `cancelled` now and then, and throws Cancelled.
    WordMerger(const Merges<Id>& merges, SimdLevel simd_level, const std::atomic<bool>& cancelled)
        : merges_(merges), vectors_(simd_level == SimdLevel::AVX512), cancelled_(cancelled) {}

    // Write the ids of a pre-token, at most `length` of them; returns their end.
    Id* merge(const uint8_t* word, size_t length, Id* out) {
        if (!merges_.has_all_bytes()) {
            for (size_t i = 0; i < length; ++i) {
                if (merges_.byte_id(word[i]) == ABSENT_ID) throw AbsentByte{word + i};
            }
        }
        if (length <= 16) return merge_part(word, length, out);
        // A long word mostly falls into parts that no merge can join.
        size_t start = 0;
        for (size_t i = 1; i < length; ++i) {
            stop_if_cancelled(i);
            if (merges_.joins(word[i - 1], word[i])) continue;
            out = merge_part(word + start, i - start, out);
            start = i;
        }
        return merge_part(word + start, length - start, out);
    }

  private:
    Id* merge_part(const uint8_t* word, size_t length, Id* out) {
        // The places of a short word are packed with a rank into 31 bits.
        if (length <= 64 && merges_.in_order() && merges_.size() < size_t{1} << 23) {
            if (length == 1) {
                *out = Id(merges_.byte_id(*word));
                return out + 1;
            }
#if defined(CS336_X86)
            if (vectors_) {
                if (length <= 16) return merge_in_vectors<1>(word, uint32_t(length), out);
                if (length <= 32) return merge_in_vectors<2>(word, uint32_t(length), out);
                return merge_in_vectors<4>(word, uint32_t(length), out);
            }
#endif
            if (length <= 16) return merge_in_array<16>(word, uint32_t(length), out);
            if (length <= 32) return merge_in_array<32>(word, uint32_t(length), out);
            return merge_in_array<64>(word, uint32_t(length), out);
        }
        if (length >= END) throw std::length_error("a pre-token is longer than 4 GiB");
        return merge_long(word, uint32_t(length), out);
    }

    static constexpr uint32_t END = UINT32_MAX;
    static constexpr int32_t CLOSED = INT32_MAX;

    // A short word: its symbols by the place of their first byte, and which bytes begin one.
    template <uint32_t CAPACITY>
    struct Short {
        Id symbols[CAPACITY];
        uint64_t begins;
    };

    // What a merge changes: the numbers (see `packed`) of the pairs at three places.
    struct Change {
        int place, second, first;
        int32_t here, left;
    };

    // Fill in the symbols of a word and the numbers of its pairs.
    template <uint32_t CAPACITY>
    CS336_INLINE void begin(const uint8_t* word, uint32_t length, Short<CAPACITY>& state,
                            int32_t* open) const {
        for (uint32_t i = 0; i < CAPACITY; ++i) open[i] = CLOSED;
        state.symbols[0] = Id(merges_.byte_id(word[0]));
        for (uint32_t i = 1; i < length; ++i) {
            state.symbols[i] = Id(merges_.byte_id(word[i]));
            open[i - 1] = packed(merges_.byte_rank(word[i - 1], word[i]), i - 1);
        }
        state.begins = ~uint64_t{0} >> (64 - length);
    }

    // Merge the pair with this number.
    template <uint32_t CAPACITY>
    CS336_INLINE Change merge_pair(Short<CAPACITY>& state, int32_t number) const {
        const int place = number & 0xFF;
        const Id merged = merges_.merged(uint32_t(number) >> 8);
        state.symbols[place] = merged;
        const uint64_t after = state.begins & (~uint64_t{1} << place);
        const uint64_t behind = after & (after - 1);
        const uint64_t before = state.begins & ((uint64_t{1} << place) - 1);
        state.begins ^= after ^ behind;
        Change change = {place, lowest_bit(after), 0, CLOSED, CLOSED};
        change.first = change.second;
        if (behind) {
            change.here = packed(merges_.rank(merged, state.symbols[lowest_bit(behind)]), place);
        }
        if (before) {
            change.first = highest_bit(before);
            change.left = packed(merges_.rank(state.symbols[change.first], merged), change.first);
        }
        return change;
    }

    template <uint32_t CAPACITY>
    CS336_INLINE Id* finish(const Short<CAPACITY>& state, Id* out) const {
        for (uint64_t begins = state.begins; begins; begins &= begins - 1) {
            *out++ = state.symbols[lowest_bit(begins)];
        }
        return out;
    }

    // All pairs as numbers of (rank, place): the least is the next merge. That is n^2, but there
    // are few.
    template <uint32_t CAPACITY>
    Id* merge_in_array(const uint8_t* word, uint32_t length, Id* out) const {
        Short<CAPACITY> state;
        int32_t open[CAPACITY];
        begin(word, length, state, open);
        for (;;) {
            int32_t least = CLOSED;
            for (uint32_t i = 0; i < CAPACITY; ++i) least = std::min(least, open[i]);
            if (least == CLOSED) return finish(state, out);
            const Change change = merge_pair(state, least);
            open[change.second] = CLOSED;
            open[change.place] = change.here;
            open[change.first] = change.left;
        }
    }

#if defined(CS336_X86)
    // The same with the numbers in registers: written to an array one by one and then read as
    // vectors, every merge would wait for memory (Chinese without a cache: 60 MB/s in an array,
    // 86 MB/s so; the same in vectors of AVX2 or SSE2: 46 and 51).
    template <int VECTORS>
    CS336_AVX512 Id* merge_in_vectors(const uint8_t* word, uint32_t length, Id* out) const {
        Short<16 * VECTORS> state;
        alignas(64) int32_t numbers[16 * VECTORS];
        begin(word, length, state, numbers);
        __m512i open[VECTORS];
        for (int v = 0; v < VECTORS; ++v) open[v] = _mm512_load_si512(numbers + 16 * v);
        for (;;) {
            __m512i lower = open[0];
            for (int v = 1; v < VECTORS; ++v) lower = _mm512_min_epi32(lower, open[v]);
            const int32_t least = _mm512_reduce_min_epi32(lower);
            if (least == CLOSED) return finish(state, out);
            const Change change = merge_pair(state, least);
            const uint64_t second = uint64_t{1} << change.second;
            const uint64_t place = uint64_t{1} << change.place;
            const uint64_t first = uint64_t{1} << change.first;
            for (int v = 0; v < VECTORS; ++v) {
                const auto mask = [&](uint64_t bit) { return __mmask16(bit >> 16 * v); };
                open[v] = _mm512_mask_set1_epi32(open[v], mask(second), CLOSED);
                open[v] = _mm512_mask_set1_epi32(open[v], mask(place), change.here);
                open[v] = _mm512_mask_set1_epi32(open[v], mask(first), change.left);
            }
        }
    }
#endif

    static int32_t packed(uint32_t rank, uint32_t place) {
        return rank == Merges<Id>::NO_RANK ? CLOSED : int32_t(rank << 8 | place);
    }

    // For every rank a list of the places where its pair stands, in passes: all places of the
    // lowest rank, from left to right, before another is looked at. A merge takes one symbol away
    // and adds at most two pairs, so that all passes together visit at most three places a byte.
    // Right for merges in any order: new pairs wait for the end of the pass.
    Id* merge_long(const uint8_t* word, uint32_t length, Id* out) {
        make_room(symbols_, length);
        set_size(span_, length, uint32_t(1));
        set_size(begins_, length, uint8_t(1));
        if (heads_.empty()) {
            heads_.assign(merges_.size(), END);
            tails_.assign(merges_.size(), END);
        }
        places_.clear(length > KEPT);
        ranks_ = {};
        // (What is interrupted by an exception would leave lists behind.)
        struct Cleaner {
            WordMerger& merger;
            ~Cleaner() { merger.forget_lists(); }
        } cleaner{*this};
        for (uint32_t i = 0; i < length; ++i) {
            stop_if_cancelled(i);
            symbols_.push_back(Id(merges_.byte_id(word[i])));
            if (i) note(i - 1, merges_.byte_rank(word[i - 1], word[i]));
        }
        while (!ranks_.empty()) {
            stop_if_cancelled(0);
            const uint32_t rank = ranks_.top();
            ranks_.pop();
            merge_everywhere(rank, length);
        }
        for (uint32_t i = 0; i < length; i += span_[i]) *out++ = symbols_[i];
        return out;
    }

    // The list has its places from left to right. For what becomes of the bytes of a token does not
    // depend on what stands beside them, as long as no merge reaches across: all tokens of a kind are
    // made in the same pass, and so are all pairs of two kinds.
    void merge_everywhere(uint32_t rank, uint32_t length) {
        const Id merged = merges_.merged(rank);
        uint32_t next = heads_[rank];
        // What is noted meanwhile begins a new list. (Before anything is thrown.)
        heads_[rank] = tails_[rank] = END;
        for (size_t done = 0; next != END; ++done) {
            stop_if_cancelled(done);
            const uint32_t place = places_[next].place;
            next = places_[next].next;
            // One of the two symbols may have been merged with another since.
            if (!begins_[place]) continue;
            const uint32_t second = place + span_[place];
            if (second >= length || merges_.rank(symbols_[place], symbols_[second]) != rank) continue;
            const uint32_t third = second + span_[second];
            symbols_[place] = merged;
            // A symbol's length stands at its first and at its last byte.
            begins_[second] = 0;
            span_[place] = span_[third - 1] = third - place;
            if (place > 0) {
                const uint32_t first = place - span_[place - 1];
                note(first, merges_.rank(symbols_[first], merged));
            }
            if (third < length) note(place, merges_.rank(merged, symbols_[third]));
        }
    }

    // Empty an array and make room in it, for which large pages are asked before it is touched: with
    // small ones a word of 10 MB took twelve times as long as one of 1 MB.
    template <class T>
    static void make_room(std::vector<T>& array, uint32_t size) {
        array.clear();
        array.reserve(size);
        ask_for_huge_pages(array.data(), size_t(size) * sizeof(T));
    }

    // Fill an array.
    template <class T>
    void set_size(std::vector<T>& array, uint32_t size, T value) const {
        make_room(array, size);
        while (array.size() < size) {
            stop_if_cancelled(0);
            array.resize(std::min<size_t>(size, array.size() + (size_t{1} << 20)), value);
        }
    }

    // Looks at it now and then: a pass over a word of 100 MB takes seconds.
    void stop_if_cancelled(size_t step) const {
        if (step % (1 << 16) == 0 && cancelled_.load(std::memory_order_relaxed)) throw Cancelled();
    }

    void note(uint32_t place, uint32_t rank) {
        if (rank == Merges<Id>::NO_RANK) return;
        if (places_.size() >= END) throw std::length_error("a pre-token is too long");
        const uint32_t added = uint32_t(places_.size());
        places_.add({place, END});
        if (tails_[rank] == END) {
            heads_[rank] = added;
            ranks_.push(rank);
        } else {
            places_[tails_[rank]].next = added;
        }
        tails_[rank] = added;
    }

    void forget_lists() {
        while (!ranks_.empty()) {
            heads_[ranks_.top()] = tails_[ranks_.top()] = END;
            ranks_.pop();
        }
        if (symbols_.capacity() > KEPT) {
            symbols_ = {};
            span_ = {};
            begins_ = {};
            places_.clear(false);
        }
    }

    // Memory for longer words is given back.
    static constexpr size_t KEPT = size_t{1} << 16;

    struct Place {
        uint32_t place, next;
    };

    // An array that grows without moving what it holds, for which Ctrl-C would have to wait.
    class Places {
      public:
        size_t size() const { return size_; }
        Place& operator[](size_t i) { return blocks_[i >> BLOCK_BITS][i & (BLOCK - 1)]; }
        void add(Place place) {
            if (size_ == blocks_.size() << BLOCK_BITS) {
                blocks_.emplace_back(new Place[BLOCK]);
                if (large_) ask_for_huge_pages(blocks_.back().get(), BLOCK * sizeof(Place));
            }
            (*this)[size_++] = place;
        }
        // Begin anew; for `large`, memory is not kept for the next word.
        void clear(bool large) {
            if (large || large_) blocks_.clear();
            large_ = large;
            size_ = 0;
        }

      private:
        static constexpr int BLOCK_BITS = 22;
        static constexpr size_t BLOCK = size_t{1} << BLOCK_BITS;
        std::vector<std::unique_ptr<Place[]>> blocks_;
        size_t size_ = 0;
        bool large_ = false;
    };

    const Merges<Id>& merges_;
    const bool vectors_;
    const std::atomic<bool>& cancelled_;
    std::vector<Id> symbols_;
    std::vector<uint32_t> span_;
    std::vector<uint8_t> begins_;  // whether a symbol begins at this byte
    Places places_;
    std::vector<uint32_t> heads_, tails_;
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<uint32_t>> ranks_;
};

// --- remembered words ----------------------------------------------------------------------------

// Bytes that all the caches of a tokenizer may take together.
class CacheBudget {
  public:
    explicit CacheBudget(size_t num_bytes)
        : is_zero_(num_bytes == 0), left_(int64_t(std::min(num_bytes, MOST))) {}

    bool is_zero() const { return is_zero_; }

    bool take(size_t num_bytes) {
        if (left_.fetch_sub(int64_t(num_bytes)) >= int64_t(num_bytes)) return true;
        give(num_bytes);
        return false;
    }
    void give(size_t num_bytes) { left_.fetch_add(int64_t(num_bytes)); }

  private:
    static constexpr size_t MOST = size_t{1} << 62;
    const bool is_zero_;
    std::atomic<int64_t> left_;
};

// Pre-token -> ids. Open addressing; a full cache that must not grow is emptied and filled anew,
// the simplest rule that keeps the words of the day.
template <class Id>
class WordCache {
  public:
    static constexpr size_t LANES = 16 / sizeof(Id);
    static constexpr size_t MAX_INLINE = LANES - 1;
    static constexpr size_t MAX_WORD = 128;  // longer ones seldom come again
    static constexpr Id FAR = Id(~Id{0});

    struct Entry {
        uint64_t low, high;  // a short word as in WordKey; or hash and length of a long one
        // At most MAX_INLINE ids, and their number; or the address of a record, and FAR.
        union {
            Id lanes[LANES];
            struct {
                const uint8_t* record;
                uint32_t num_ids;
            } far;
        };
        Id count() const { return lanes[MAX_INLINE]; }
        // Whether this is the entry of a key, with its ids in it. (The highest bit of FAR is set.)
        bool is_near(const WordKey& key) const {
            return ((low ^ key.low) | (high ^ key.high) | (count() >> (8 * sizeof(Id) - 1))) == 0;
        }
    };
    static_assert(sizeof(Entry) == 32, "two entries to a cache line");

    // (The budget is owned together: Python frees an encoder before the workers that it has kept.)
    explicit WordCache(std::shared_ptr<CacheBudget> budget) : budget_(std::move(budget)) {
        // Nothing is taken before the first word comes: many tokenizers are never used.
    }
    WordCache(const WordCache&) = delete;
    ~WordCache() {
        forget_records();
        budget_->give(table_.size() * sizeof(Entry));
    }

    // Bytes from `readable_end` on are not read.
    static CS336_INLINE WordKey key(const uint8_t* word, size_t length,
                                    const uint8_t* readable_end) {
        if (length <= MAX_SHORT_WORD && readable_end - word >= ptrdiff_t(WORD_PADDING)) {
            return make_key(word, length);
        }
        return rare_key(word, length);
    }

    // A long word; or a short one at the end of the text, where 16 bytes cannot be read at once.
    static CS336_NOINLINE WordKey rare_key(const uint8_t* word, size_t length) {
        if (length > MAX_SHORT_WORD) {
            WordKey key = make_key(word, length);
            key.low = key.hash;
            return key;
        }
        uint8_t padded[WORD_PADDING] = {};
        std::memcpy(padded, word, length);
        return make_key(padded, length);
    }

    // Too large for the caches of the processor: its entries are worth asking for early.
    bool is_large() const { return table_.size() > (size_t{1} << 16); }

    // Where words stand if no other is in their place, in values that a loop keeps in registers. It
    // holds until the next word is remembered.
    struct View {
        const Entry* entries;
        int shift;
        const Entry& at(const WordKey& key) const { return entries[key.hash >> shift]; }
    };
    View view() const {
        static const Entry NOTHING[2] = {};  // of no word: every one has its length
        return table_.size() ? View{&table_[0], shift_} : View{NOTHING, 63};
    }

    // The entry of a word, or null.
    const Entry* find(const WordKey& key, const uint8_t* word) const {
        if (size_ == 0) return nullptr;
        for (size_t slot = key.hash >> shift_;; slot = (slot + 1) & (table_.size() - 1)) {
            const Entry& entry = table_[slot];
            if (entry.high == 0) return nullptr;
            if (entry.low == key.low && entry.high == key.high &&
                (!key.is_long() || !std::memcmp(entry.far.record, word, key.length()))) {
                return &entry;
            }
        }
    }

    static const Id* ids(const Entry& entry, const WordKey& key) {
        if (entry.count() != FAR) return entry.lanes;
        return reinterpret_cast<const Id*>(entry.far.record + ids_offset(key));
    }
    static size_t num_ids(const Entry& entry) {
        return entry.count() == FAR ? entry.far.num_ids : entry.count();
    }

    // Remember the ids of a word that is not there yet.
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
            added.lanes[MAX_INLINE] = FAR;
        }
        place(table_, shift_, added, key.hash);
        ++size_;
    }

  private:
    static constexpr int FIRST_BITS = 12;
    static constexpr size_t FIRST_CHUNK = size_t{1} << 14, LAST_CHUNK = size_t{1} << 20;

    struct Chunk {
        std::unique_ptr<uint8_t[]> bytes;
        size_t size;
    };

    // Where the ids stand in a record: behind the bytes of a long word.
    static size_t ids_offset(const WordKey& key) {
        return key.is_long() ? (key.length() + 3) / 4 * 4 : 0;
    }

    static void place(EntryArray<Entry>& table, int shift, const Entry& entry, uint64_t hash) {
        size_t slot = hash >> shift;
        while (table[slot].high) slot = (slot + 1) & (table.size() - 1);
        table[slot] = entry;
    }

    // Make room for one more word; false if there can be none.
    bool make_room() {
        // At most half full, or too many words are not where they belong; three quarters where there
        // is no memory for more.
        if (2 * (size_ + 1) <= table_.size() || grow()) return true;
        if (4 * (size_ + 1) > 3 * table_.size()) clear();
        return table_.size() > 0;
    }

    bool grow() {
        // Fourfold at first: a new process fills the table, and every growth moves it.
        int bits = table_.size() ? bits_ + (bits_ < 20 ? 2 : 1) : FIRST_BITS;
        for (; bits > (table_.size() ? bits_ : 3); --bits) {
            const size_t num_bytes = (size_t{1} << bits) * sizeof(Entry);
            if (!budget_->take(num_bytes)) continue;
            EntryArray<Entry> larger;
            try {
                larger = EntryArray<Entry>(size_t{1} << bits);
            } catch (const std::bad_alloc&) {
                budget_->give(num_bytes);
                continue;
            }
            for (size_t i = 0; i < table_.size(); ++i) {
                const Entry& entry = table_[i];
                if (entry.high) place(larger, 64 - bits, entry, hash_of(entry));
            }
            budget_->give(table_.size() * sizeof(Entry));
            table_ = std::move(larger);
            bits_ = bits;
            shift_ = 64 - bits;
            return true;
        }
        return false;
    }

    static uint64_t hash_of(const Entry& entry) {
        return entry.high >> 56 == 0xFF ? entry.low : hash_two(entry.low, entry.high);
    }

    void clear() {
        if (size_) std::memset(static_cast<void*>(&table_[0]), 0, table_.size() * sizeof(Entry));
        size_ = 0;
        forget_records();
    }

    void forget_records() {
        for (const Chunk& chunk : chunks_) budget_->give(chunk.size);
        chunks_.clear();
        free_ = 0;
    }

    uint8_t* new_record(size_t size) {
        size = (size + 7) / 8 * 8;
        if (size > free_) {
            const size_t wanted =
                chunks_.empty() ? FIRST_CHUNK : std::min(2 * chunks_.back().size, LAST_CHUNK);
            // (A record is shorter than the first chunk.)
            if (!budget_->take(wanted)) {
                // Without a record there is nothing to win: the words in the table stay.
                if (chunks_.empty()) return nullptr;
                clear();
                if (!budget_->take(FIRST_CHUNK)) return nullptr;
                add_chunk(FIRST_CHUNK);
            } else {
                add_chunk(wanted);
            }
        }
        uint8_t* record = next_;
        next_ += size;
        free_ -= size;
        return record;
    }

    void add_chunk(size_t size) {
        chunks_.push_back({std::unique_ptr<uint8_t[]>(new uint8_t[size]), size});
        next_ = chunks_.back().bytes.get();
        free_ = size;
    }

    const std::shared_ptr<CacheBudget> budget_;
    EntryArray<Entry> table_;
    int bits_ = 0, shift_ = 63;
    size_t size_ = 0;
    std::vector<Chunk> chunks_;
    uint8_t* next_ = nullptr;
    size_t free_ = 0;
};

// --- texts ---------------------------------------------------------------------------------------

// Special tokens that are cut out of a text, and their ids; the longest must stand first.
struct SpecialIds {
    SpecialTokens tokens;
    std::vector<uint32_t> ids;
};

// What one thread needs to encode; it is used by one at a time.
class EncodingWorker {
  public:
    // Set by another thread: `encode` throws Cancelled soon.
    std::atomic<bool> cancelled{false};
    // For ids that have no better place.
    Buffer output;

    virtual ~EncodingWorker() = default;
    // Write the ids of a text, which must be valid UTF-8, to `out`, an array of elements of
    // `id_size` bytes with room for `size` + OUTPUT_SLACK of them. Returns the number of ids. If
    // `ends` is given, the number of ids up to and with each special token of the id `separator` is
    // added to it. Throws AbsentByte, Cancelled.
    virtual size_t encode(const uint8_t* text, size_t size, const SpecialIds& special, void* out,
                          uint32_t separator, std::vector<int64_t>* ends) = 0;
    // The same for one pre-token.
    virtual size_t encode_word(const uint8_t* word, size_t length, void* out) = 0;
};

// A vocabulary, made ready for encoding.
class EncoderBase {
  public:
    virtual ~EncoderBase() = default;
    // `cache_bytes`: of its own; 0: its cache shares what was given to `make_encoder`.
    virtual std::unique_ptr<EncodingWorker> make_worker(size_t cache_bytes) = 0;
    virtual size_t id_size() const = 0;
};

template <class Id>
class TypedEncoder final : public EncoderBase {
  public:
    TypedEncoder(const uint32_t* byte_ids, const uint32_t* merges, size_t num_merges,
                 size_t cache_bytes, bool cl100k, SimdLevel simd_level)
        : merges_(byte_ids, merges, num_merges),
          budget_(std::make_shared<CacheBudget>(cache_bytes)),
          cl100k_(cl100k),
          simd_level_(simd_level) {}

    std::unique_ptr<EncodingWorker> make_worker(size_t cache_bytes) override {
        return std::unique_ptr<EncodingWorker>(new Worker(*this, cache_bytes));
    }
    size_t id_size() const override { return sizeof(Id); }

  private:
    using Cache = WordCache<Id>;

    class Worker final : public EncodingWorker {
      public:
        Worker(TypedEncoder& encoder, size_t cache_bytes)
            : encoder_(encoder),
              merger_(encoder.merges_, encoder.simd_level_, cancelled),
              cache_(cache_bytes ? std::make_shared<CacheBudget>(cache_bytes) : encoder.budget_) {}

        size_t encode(const uint8_t* text, size_t size, const SpecialIds& special, void* output,
                      uint32_t separator, std::vector<int64_t>* ends) override {
            Id* const begin = static_cast<Id*>(output);
            Id* out = begin;
            readable_end_ = text + size;
            if (special.tokens.empty()) return encode_piece(text, size, out) - begin;
            Occurrences occurrences(special.tokens, text, size);
            size_t start = 0;
            while (start < size) {
                const Occurrence found = occurrences.next(start);
                out = encode_piece(text + start, found.position - start, out);
                start = found.position + found.length;
                if (!found.length) break;
                const uint32_t id = special.ids[found.token];
                *out++ = Id(id);
                if (ends && id == separator) ends->push_back(out - begin);
            }
            return out - begin;
        }

        size_t encode_word(const uint8_t* word, size_t length, void* output) override {
            if (!length) return 0;
            readable_end_ = word + length;
            Id* const out = static_cast<Id*>(output);
            return look_up(Cache::key(word, length, readable_end_), word, length, out) - out;
        }

      private:
        Id* encode_piece(const uint8_t* text, size_t size, Id* out) {
            return encoder_.cl100k_ ? encode_pattern<Cl100k>(text, size, out)
                                    : encode_pattern<Gpt2>(text, size, out);
        }

        template <class Pattern>
        Id* encode_pattern(const uint8_t* text, size_t size, Id* out) {
            scan_batches<Pattern>(
                text, size, encoder_.simd_level_,
                [&](const uint8_t* first, const uint32_t* ends, size_t count) {
                    if (cancelled.load(std::memory_order_relaxed)) throw Cancelled();
                    out = encode_batch(first, ends, count, out);
                },
                [&](const uint8_t* word, size_t length) {
                    out = merger_.merge(word, length, out);
                });
            return out;
        }

        // The words [first, first + ends[0]), [first + ends[0], first + ends[1]), ...
        Id* encode_batch(const uint8_t* first, const uint32_t* ends, size_t num_words, Id* out) {
            // As WordTable::add_batch: far enough ahead to hide the memory.
            constexpr size_t GROUP = 128;
            WordKey keys[GROUP];
            uint32_t start = 0;
            for (size_t done = 0; done < num_words; done += GROUP) {
                const size_t group = std::min(GROUP, num_words - done);
                const uint32_t* const group_ends = ends + done;
                const uint32_t group_start = start;
                typename Cache::View view = cache_.view();
                if (readable_end_ - first >= ptrdiff_t(group_ends[group - 1] + WORD_PADDING)) {
                    const bool large = cache_.is_large();
                    for (size_t i = 0; i < group; ++i) {
                        const uint32_t end = group_ends[i];
                        const uint32_t length = end - start;
                        keys[i] = length <= MAX_SHORT_WORD ? make_short_key(first + start, length)
                                                         : Cache::rare_key(first + start, length);
                        if (large) CS336_PREFETCH(&view.at(keys[i]));
                        start = end;
                    }
                } else {
                    for (size_t i = 0; i < group; ++i) {
                        const uint32_t end = group_ends[i];
                        keys[i] = Cache::key(first + start, end - start, readable_end_);
                        start = end;
                    }
                }
                for (size_t i = 0; i < group; ++i) {
                    // Nearly always a short word of few ids that stands where it belongs.
                    const typename Cache::Entry& entry = view.at(keys[i]);
                    if (entry.is_near(keys[i])) {
                        std::memcpy(out, entry.lanes, 16);
                        out += entry.count();
                        continue;
                    }
                    const uint32_t word = i ? group_ends[i - 1] : group_start;
                    out = look_up(keys[i], first + word, group_ends[i] - word, out);
                    view = cache_.view();
                }
            }
            return out;
        }

        CS336_NOINLINE Id* look_up(const WordKey& key, const uint8_t* word, size_t length, Id* out) {
            if (const typename Cache::Entry* entry = cache_.find(key, word)) {
                const Id* ids = Cache::ids(*entry, key);
                return std::copy(ids, ids + Cache::num_ids(*entry), out);
            }
            Id* const end = merger_.merge(word, length, out);
            cache_.insert(key, word, out, end - out);
            return end;
        }

        TypedEncoder& encoder_;
        WordMerger<Id> merger_;
        Cache cache_;
        const uint8_t* readable_end_ = nullptr;
    };

    const Merges<Id> merges_;
    const std::shared_ptr<CacheBudget> budget_;
    const bool cl100k_;
    const SimdLevel simd_level_;
};

inline std::unique_ptr<EncoderBase> make_encoder(
    bool narrow, const uint32_t* byte_ids, const uint32_t* merges, size_t num_merges,
    size_t cache_bytes, bool cl100k, SimdLevel simd_level) {
    if (narrow) {
        return std::unique_ptr<EncoderBase>(new TypedEncoder<uint16_t>(
            byte_ids, merges, num_merges, cache_bytes, cl100k, simd_level));
    }
    return std::unique_ptr<EncoderBase>(new TypedEncoder<uint32_t>(
        byte_ids, merges, num_merges, cache_bytes, cl100k, simd_level));
}

// --- many texts ----------------------------------------------------------------------------------

// The ids of one text.
struct EncodedText {
    std::unique_ptr<uint8_t[]> ids;
    size_t num_ids = 0;
};

struct TextSpan {
    const uint8_t* data;
    size_t size;
};

// A larger buffer for the output of one text is given back after it.
constexpr size_t KEPT_OUTPUT = size_t{1} << 24;

// EncodingWorker::encode, with AbsentByte as a Failure that has its offset in the text.
inline Failure encode_to(EncodingWorker& worker, TextSpan text, const SpecialIds& special, void* out,
                         uint32_t separator, std::vector<int64_t>* ends, size_t& num_ids) {
    try {
        num_ids = worker.encode(text.data, text.size, special, out, separator, ends);
    } catch (const AbsentByte& absent) {
        return {Failure::ABSENT_BYTE, 0, uint64_t(absent.place - text.data), 0, *absent.place, ""};
    }
    return {};
}

// The same for one pre-token.
inline Failure encode_word_to(EncodingWorker& worker, TextSpan word, void* out, size_t& num_ids) {
    try {
        num_ids = worker.encode_word(word.data, word.size, out);
    } catch (const AbsentByte& absent) {
        return {Failure::ABSENT_BYTE, 0, uint64_t(absent.place - word.data), 0, *absent.place, ""};
    }
    return {};
}

// Encode a text (valid UTF-8) into memory of its own.
inline Failure encode_text(EncodingWorker& worker, size_t id_size, TextSpan text,
                           const SpecialIds& special, EncodedText& result) {
    worker.output.reserve((text.size + OUTPUT_SLACK) * id_size, 0);
    const Failure failure = encode_to(worker, text, special, worker.output.data(), ABSENT_ID,
                                      nullptr, result.num_ids);
    if (failure.kind) return failure;
    result.ids.reset(new uint8_t[result.num_ids * id_size + 1]);
    std::memcpy(result.ids.get(), worker.output.data(), result.num_ids * id_size);
    worker.output.trim(KEPT_OUTPUT);
    return {};
}

// Encodes texts with threads: `start`, `wait` until it says true, `join`, then take the results.
class BatchEncoding {
  public:
    // All arguments must outlive this object.
    BatchEncoding(const std::vector<EncodingWorker*>& workers, size_t id_size,
                  const std::vector<TextSpan>& texts, const SpecialIds& special)
        : workers_(workers), id_size_(id_size), texts_(texts), special_(special) {
        results_.resize(texts.size());
    }

    void start() {
        pool_.start(int(workers_.size()), texts_.size(), [this](int thread, size_t i) {
            Failure failure =
                encode_text(*workers_[thread], id_size_, texts_[i], special_, results_[i]);
            failure.file = i;
            return failure;
        });
    }
    bool wait(int milliseconds) { return pool_.wait(milliseconds); }
    void join() { pool_.join(); }
    void cancel() {
        pool_.cancelled = true;
        for (EncodingWorker* worker : workers_) worker->cancelled = true;
        pool_.join();
        for (EncodingWorker* worker : workers_) worker->cancelled = false;
    }
    const Failure& failure() const { return pool_.failure(); }
    size_t num_ids(size_t i) const { return results_[i].num_ids; }
    const void* ids(size_t i) const { return results_[i].ids.get(); }

    // Copy all ids, one text after the other, and free them; by threads, too, because the memory
    // they are copied to is touched for the first time.
    void gather(uint8_t* out) {
        std::vector<uint8_t*> places;
        for (const EncodedText& result : results_) {
            places.push_back(out);
            out += result.num_ids * id_size_;
        }
        const auto copy = [&](int, size_t i) {
            std::memcpy(places[i], results_[i].ids.get(), results_[i].num_ids * id_size_);
            results_[i].ids.reset();
            return Failure();
        };
        if (!pool_.start(int(workers_.size()), results_.size(), copy)) {
            for (size_t i = 0; i < results_.size(); ++i) copy(0, i);
        }
        pool_.join();
    }

  private:
    const std::vector<EncodingWorker*>& workers_;
    const size_t id_size_;
    const std::vector<TextSpan>& texts_;
    const SpecialIds& special_;
    std::vector<EncodedText> results_;
    ThreadPool pool_;  // the last member: its threads end before anything goes that they use
};

// Cut a text in memory into spans of about `block_size` bytes that can be encoded one by one.
inline std::vector<TextSpan> cut_text(const uint8_t* text, size_t size, size_t block_size,
                                      const SpecialIds& special, bool line_feeds) {
    const SafeCuts cuts(special.tokens, line_feeds);
    std::vector<TextSpan> spans;
    size_t start = 0;
    while (start < size) {
        size_t end = size;
        if (size - start > block_size) end = cuts.first(text, size, start + block_size, size);
        spans.push_back({text + start, end - start});
        start = end;
    }
    return spans;
}

// The ids of one block of a file.
struct EncodedBlock {
    Buffer ids;
    size_t num_ids = 0;
    std::vector<int64_t> ends;  // the number of ids up to and with each separator
    uint64_t num_bytes = 0;     // of the block, for progress
};

// Encode a block of a file. Bytes that are not valid UTF-8 are read as U+FFFD, or refused.
inline Failure encode_block(const BlockReader& reader, size_t block, BlockReader::ReadState& place,
                            EncodingWorker& worker, size_t id_size, const SpecialIds& special,
                            bool strict, uint32_t separator, EncodedBlock& result) {
    BlockReader::Text text;
    Failure failure = reader.read(block, place, worker.cancelled, text);
    if (failure.kind) return failure;
    result.num_bytes = text.num_bytes;
    result.ends.clear();
    TextSpan valid = {text.data, text.size};
    std::vector<uint8_t> replaced;
    const size_t invalid = first_invalid_utf8(text.data, text.size);
    if (invalid < text.size) {
        if (strict) {
            return {Failure::NOT_UTF8, text.file, text.offset + invalid, 0, text.data[invalid], ""};
        }
        replace_invalid_utf8(text.data, text.size, replaced);
        valid = {replaced.data(), replaced.size()};
    }
    result.ids.reserve((valid.size + OUTPUT_SLACK) * id_size, 0);
    failure = encode_to(worker, valid, special, result.ids.data(), separator, &result.ends,
                        result.num_ids);
    if (failure.kind) {
        failure.file = text.file;
        // Among replaced bytes the place in the file is not known exactly: that of the text is.
        failure.offset = text.offset + (replaced.empty() ? failure.offset : 0);
    }
    return failure;
}

// Encodes files with threads and hands out their blocks in order: `start`, `wait` until it says true,
// take the `block`, go on with `next` and so on until it is null; then `close`, and `failure` tells
// what went wrong.
class FileEncoding {
  public:
    // All arguments must outlive this object.
    FileEncoding(const BlockReader& reader, const std::vector<EncodingWorker*>& workers,
                 size_t id_size, const SpecialIds& special, bool strict, uint32_t separator)
        : reader_(reader),
          workers_(workers),
          id_size_(id_size),
          special_(special),
          strict_(strict),
          separator_(separator),
          places_(workers.size()),
          slots_(2 * workers.size() + 2) {}
    ~FileEncoding() { close(); }

    void start() {
        const bool started =
            pool_.start(int(workers_.size()), reader_.num_blocks(),
                        [this](int thread, size_t block) { return encode(thread, block); });
        if (!started) taken_ = reader_.num_blocks();
    }

    // Wait for the next block, but not longer than that; returns whether `block` knows it.
    bool wait(int milliseconds) {
        std::unique_lock<std::mutex> lock(mutex_);
        return ready_.wait_for(lock, std::chrono::milliseconds(milliseconds), [this] {
            return taken_ == reader_.num_blocks() || slot(taken_).state != Slot::OPEN;
        });
    }

    // The next block; null behind the last one, and where one failed.
    EncodedBlock* block() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (taken_ == reader_.num_blocks() || slot(taken_).state != Slot::DONE) return nullptr;
        return &slot(taken_).block;
    }

    // The block is not needed any more.
    void next() {
        slot(taken_).block.ids.trim(KEPT_OUTPUT);
        std::lock_guard<std::mutex> lock(mutex_);
        slot(taken_).state = Slot::OPEN;
        ++taken_;
        room_.notify_all();
    }

    // End what is under way. From then on the workers are not touched.
    void close() {
        if (closed_) return;
        closed_ = true;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            pool_.cancelled = true;
            for (EncodingWorker* worker : workers_) worker->cancelled = true;
            room_.notify_all();
        }
        pool_.join();
        for (EncodingWorker* worker : workers_) worker->cancelled = false;
    }
    const Failure& failure() const { return pool_.failure(); }

    // Blocks that were encoded to their end so far.
    size_t num_encoded() {
        std::lock_guard<std::mutex> lock(mutex_);
        return num_encoded_;
    }

  private:
    struct Slot {
        enum State { OPEN, DONE, FAILED };
        State state = OPEN;
        EncodedBlock block;
    };

    Slot& slot(size_t block) { return slots_[block % slots_.size()]; }

    Failure encode(int thread, size_t block) {
        {
            // The ids of a few blocks are kept; whoever is further ahead waits.
            std::unique_lock<std::mutex> lock(mutex_);
            room_.wait(lock, [&] { return pool_.cancelled || block < taken_ + slots_.size(); });
            if (pool_.cancelled) throw Cancelled();
        }
        Failure failure;
        try {
            failure = encode_block(reader_, block, places_[thread], *workers_[thread], id_size_,
                                   special_, strict_, separator_, slot(block).block);
        } catch (...) {
            finish(block, Slot::FAILED);
            throw;
        }
        finish(block, failure.kind ? Slot::FAILED : Slot::DONE);
        return failure;
    }

    void finish(size_t block, Slot::State state) {
        std::lock_guard<std::mutex> lock(mutex_);
        slot(block).state = state;
        num_encoded_ += state == Slot::DONE;
        if (block == taken_) ready_.notify_one();
    }

    const BlockReader& reader_;
    const std::vector<EncodingWorker*>& workers_;
    const size_t id_size_;
    const SpecialIds& special_;
    const bool strict_;
    const uint32_t separator_;
    bool closed_ = false;
    std::vector<BlockReader::ReadState> places_;
    std::mutex mutex_;  // of what follows but the blocks: one of them belongs to one thread at a time
    std::condition_variable ready_, room_;
    std::vector<Slot> slots_;
    size_t taken_ = 0, num_encoded_ = 0;
    ThreadPool pool_;  // the last member: its threads end before anything goes that they use
};

// --- ids to bytes --------------------------------------------------------------------------------

// Tokens by id, in one array.
class TokenTable {
  public:
    // Token i is data[offsets[i], offsets[i + 1]); an empty one is an id without a token.
    TokenTable(const uint8_t* data, const int64_t* offsets, size_t num_ids)
        : data_(data, data + offsets[num_ids]) {
        if (data_.size() > UINT32_MAX) throw std::length_error("the tokens take more than 4 GiB");
        data_.resize(data_.size() + 16);
        spans_.reserve(num_ids);
        for (size_t id = 0; id < num_ids; ++id) {
            spans_.push_back({uint32_t(offsets[id]), uint32_t(offsets[id + 1] - offsets[id])});
        }
    }

    size_t size() const { return spans_.size(); }

    // The place of the first id that has no token; `count` if all have one. Adds up their bytes.
    template <class Id>
    size_t check(const Id* ids, size_t count, size_t& num_bytes) const {
        size_t sum = 0;
        for (size_t i = 0; i < count; ++i) {
            if (size_t(ids[i]) >= size() || spans_[ids[i]].length == 0) return i;
            sum += spans_[ids[i]].length;
        }
        num_bytes += sum;
        return count;
    }

    // Write the tokens of ids that `check` found right; 16 bytes behind them may be written.
    template <class Id>
    uint8_t* write(const Id* ids, size_t count, uint8_t* out) const {
        for (size_t i = 0; i < count; ++i) {
            const Span span = spans_[ids[i]];
            const uint8_t* bytes = data_.data() + span.offset;
            std::memcpy(out, bytes, 16);
            if (span.length > 16) std::memcpy(out + 16, bytes + 16, span.length - 16);
            out += span.length;
        }
        return out;
    }

  private:
    struct Span {
        uint32_t offset, length;
    };

    std::vector<uint8_t> data_;
    std::vector<Span> spans_;
};

}  // namespace cs336
