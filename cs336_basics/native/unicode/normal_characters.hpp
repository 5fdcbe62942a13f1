// NormalCharacters: a quick check that text is in a Unicode normalization form.

#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "base/simd_level.hpp"
#include "base/simd_target.hpp"
#include "unicode/characters.hpp"
#include "unicode/text_view.hpp"

namespace cs336 {

// What normalization does to each character. A character has one of these classes:
//
// - 0: It is normalized in every text, and is neither joined nor reordered with a character before
//   it.
// - 1 to 253, its canonical combining class: It is normalized if the class of the character before
//   it is not larger.
// - JOINING: It is normalized if a character of class 0 is before it, with which it is not joined
//   and from which no mark moves after it.
// - OTHER: It may have to be replaced, joined or reordered.
//
// This is the quick check of Unicode Standard Annex 15, section 9, with a look at pairs.
class NormalCharacters {
  public:
    static constexpr uint8_t JOINING = 254, OTHER = 255;
    static constexpr size_t NUM_CODES = 0x110000;

    NormalCharacters() = default;

    // `classes` has the class of each code point. The class of ASCII characters must be 0. `pairs`
    // has the code points that are joined: the first one, shifted by 32 bits, plus the second one.
    // The second one is 0 if the first one consists of a letter and marks, which may move.
    NormalCharacters(const uint8_t* classes, std::vector<uint64_t> pairs,
                     SimdLevel simd_level = best_simd_level())
        : simd_level_(simd_level), pairs_(std::move(pairs)) {
        std::sort(pairs_.begin(), pairs_.end());
        for (size_t block = 0; block < NUM_CODES / BLOCK; ++block) add_block(classes, block);
        while (first_ < NUM_CODES && !classes[first_]) ++first_;
        lead_ = first_byte(first_);
        group_leads(classes);
        find_ranges(classes);
    }

    // Units `start` to `end` of a text: bytes of UTF-8, or code points.
    struct Run {
        size_t start, end;
    };

    // The runs of characters of a text that may have to be normalized together. Everything between
    // them is normalized and does not interact with them. Runs with little text between them are
    // one.
    std::vector<Run> runs(const TextView& text) const {
        std::vector<Run> found;
        read(text, [&](const auto* units) {
            each_other(units, text.length, [&](size_t start, size_t end) {
                if (found.empty() || start != found.back().end) {
                    while (start) {  // to the last character of class 0
                        start = previous(units, start);
                        if (!class_at(units, start).value) break;
                    }
                    if (found.empty() || start > found.back().end + MAX_GAP) {
                        found.push_back({start, 0});
                    }
                }
                found.back().end = end;
            });
        });
        return found;
    }

  private:
    static constexpr size_t BLOCK = 64, MAX_GAP = 32;
    static constexpr size_t CHUNK = 64, WINDOW = 32 * CHUNK;  // units that are searched at a time
    static constexpr size_t MAX_PUT = 2;
    static constexpr int NUM_RANGES = 9;

    struct Class {
        uint8_t value;
        uint32_t length;  // of the character, in bytes or units
    };

    struct Range {
        uint32_t first, size;
    };

    using Masks = std::array<uint8_t, 64>;  // by the lowest six bits of a byte

    // Masks by the lowest and the highest four bits of a byte. They have the bits of `Masks` in
    // common, and maybe more, but AVX2 looks them up faster.
    struct Halves {
        std::array<uint8_t, 16> low{}, high{};

        void add(size_t byte, uint8_t mask) {
            low[byte & 15] |= mask;
            high[byte >> 4] |= mask;
        }
    };

    // ------------------------------------------------------------------ tables

    void add_block(const uint8_t* classes, size_t block) {
        const uint8_t* const given = classes + block * BLOCK;
        size_t offset = 0;
        while (offset < class_table_.size() &&
               std::memcmp(class_table_.data() + offset, given, BLOCK)) {
            offset += BLOCK;
        }
        if (offset == class_table_.size()) {
            class_table_.insert(class_table_.end(), given, given + BLOCK);
        }
        blocks_.push_back(uint32_t(offset));
    }

    static uint8_t first_byte(size_t code) {
        return uint8_t(code < 0x800     ? 0xC0 | code >> 6
                       : code < 0x10000 ? 0xE0 | code >> 12
                                        : 0xF0 | code >> 18);
    }

    // A character of UTF-8 is looked up if the masks of its first three bytes have a common bit.
    // Each bit stands for a group of first bytes, and for all second and third bytes that occur
    // with them in characters that are not of class 0. Any byte may follow a character of two
    // bytes.
    void group_leads(const uint8_t* classes) {
        struct Group {
            std::bitset<64> leads, seconds, thirds;
            size_t weight;
        };
        // How frequent the characters with some first bytes are in texts; by default, 1.
        std::array<uint8_t, 64> weights;
        weights.fill(1);
        for (const uint8_t lead : {0xCE, 0xD7}) weights[lead & 0x3F] = 4;
        for (const uint8_t lead : {0xD8, 0xD9, 0xE1, 0xEA, 0xF0}) weights[lead & 0x3F] = 16;
        for (const uint8_t lead : {0xE2, 0xE3, 0xEF}) weights[lead & 0x3F] = 64;
        std::vector<Group> groups(64);
        for (size_t code = 0x80; code < NUM_CODES; ++code) {
            if (!classes[code]) continue;
            const size_t lead = first_byte(code) & 0x3F;
            const int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
            groups[lead].leads.set(lead);
            groups[lead].weight = weights[lead];
            groups[lead].seconds.set(code >> 6 * (length - 2) & 0x3F);
            if (length == 2) groups[lead].thirds.set();
            if (length > 2) groups[lead].thirds.set(code >> 6 * (length - 3) & 0x3F);
        }
        groups.erase(std::remove_if(groups.begin(), groups.end(),
                                    [](const Group& group) { return group.leads.none(); }),
                     groups.end());
        while (groups.size() > 8) {  // join the two that are most similar
            size_t best = SIZE_MAX, first = 0, second = 0;
            for (size_t i = 0; i < groups.size(); ++i) {
                for (size_t j = 0; j < i; ++j) {
                    const auto both = groups[i].seconds | groups[j].seconds;
                    const auto cost = [&](const Group& group) {
                        return (both.count() - group.seconds.count()) * group.weight;
                    };
                    const size_t found = cost(groups[i]) + cost(groups[j]);
                    if (found < best) best = found, first = j, second = i;
                }
            }
            groups[first].leads |= groups[second].leads;
            groups[first].seconds |= groups[second].seconds;
            groups[first].thirds |= groups[second].thirds;
            groups[first].weight += groups[second].weight;
            groups.erase(groups.begin() + std::ptrdiff_t(second));
        }
        for (size_t i = 0; i < groups.size(); ++i) {
            for (size_t byte = 0; byte < 64; ++byte) {
                lead_masks_[byte] |= uint8_t(groups[i].leads[byte] << i);
                second_masks_[byte] |= uint8_t(groups[i].seconds[byte] << i);
                third_masks_[byte] |= uint8_t(groups[i].thirds[byte] << i);
            }
            for (size_t byte = 0; byte < 256; ++byte) {
                const uint8_t second = second_masks_[byte & 0x3F] & (1 << i);
                const uint8_t third = third_masks_[byte & 0x3F] & (1 << i);
                const bool continues = (byte & 0xC0) == 0x80;
                if (continues) second_halves_.add(byte, second);
                if (continues || groups[i].thirds.all()) third_halves_.add(byte, third);
            }
        }
    }

    // Find ranges of characters of class 0 around characters of the most frequent scripts.
    void find_ranges(const uint8_t* classes) {
        constexpr std::array<uint32_t, NUM_RANGES> FREQUENT = {
            'a', 0x2019, 0x4E2D, 0xFF0C, 0x3002, 0x436, 0x306E, 0xAC00, 0x628};
        for (size_t i = 0; i < FREQUENT.size(); ++i) {
            uint32_t first = FREQUENT[i], end = first;
            while (first && !classes[first - 1]) --first;
            while (end < NUM_CODES && !classes[end]) ++end;
            ranges_[i] = {first, end > first ? end - first : 0};
        }
    }

    // ------------------------------------------------------------------ one character

    // Call `use(units)` with the bytes of UTF-8, or with code points of two or four bytes.
    template <class Use>
    void read(const TextView& text, Use use) const {
        const uint8_t* const bytes = static_cast<const uint8_t*>(text.data);
        if (text.kind == TextView::UTF8) {
            use(bytes);
        } else if (text.kind == TextView::UCS2) {
            use(static_cast<const uint16_t*>(text.data));
        } else if (text.kind == TextView::UCS4) {
            use(static_cast<const uint32_t*>(text.data));
        } else if (first_ <= 0xFF) {  // otherwise, all Latin-1 is normalized
            const std::vector<uint16_t> wide(bytes, bytes + text.length);
            use(wide.data());
        }
    }

    Class class_at(const uint8_t* text, size_t at) const {
        if (text[at] < 0x80) return {0, 1};
        const WideCode code = wide_code(text + at);
        return {class_table_[blocks_[code.block] + code.index], code.length};
    }

    static uint32_t code_at(const uint8_t* text, size_t at) {
        if (text[at] < 0x80) return text[at];
        const WideCode code = wide_code(text + at);
        return code.block << 6 | code.index;
    }

    template <class Unit>
    static uint32_t code_at(const Unit* text, size_t at) {
        return text[at];
    }

    template <class Unit>
    Class class_at(const Unit* text, size_t at) const {
        const uint32_t code = text[at];
        return {class_table_[blocks_[code / BLOCK] + code % BLOCK], 1};
    }

    // The start of the character that ends at an offset.
    static size_t previous(const uint8_t* text, size_t end) {
        do --end;
        while (end && (text[end] & 0xC0) == 0x80);
        return end;
    }

    template <class Unit>
    static size_t previous(const Unit*, size_t end) {
        return end - 1;
    }

    // ------------------------------------------------------------------ the search

    // Call `visit(start, end)` for the characters that the quick check rejects, and for marks that
    // follow them directly.
    template <class Unit, class Visit>
    void each_other(const Unit* text, size_t size, Visit visit) const {
        // Positions are collected first: the number of positions in a chunk is hard to predict.
        std::array<uint32_t, WINDOW + MAX_PUT> positions;
        size_t visited = SIZE_MAX;  // end of the last character
        for (size_t window = 0; window < size; window += WINDOW) {
            const size_t count = std::min(size - window, WINDOW);
            const uint32_t* const end =
                find(text + window, count, size - window - count, positions.data());
            for (const uint32_t* position = positions.data(); position < end; ++position) {
                const size_t at = window + *position;
                const Class found = class_at(text, at);
                if (!found.value) continue;
                if (at != visited && follows_well(text, at, found)) continue;
                visited = at + found.length;
                visit(at, visited);
            }
        }
    }

    // Whether a character of another class than 0 is normalized after the one before it.
    template <class Unit>
    bool follows_well(const Unit* text, size_t at, Class found) const {
        if (found.value == OTHER) return false;
        if (!at) return true;
        const size_t before = previous(text, at);
        const uint8_t class_before = class_at(text, before).value;
        if (found.value != JOINING) return class_before <= found.value;
        if (class_before) return false;
        const auto is_pair = [&](uint32_t second) {
            const uint64_t pair = uint64_t(code_at(text, before)) << 32 | second;
            return std::binary_search(pairs_.begin(), pairs_.end(), pair);
        };
        return !is_pair(0) && !is_pair(code_at(text, at));
    }

    // Write the positions of bytes that may start characters of another class than 0. `after` is
    // the number of bytes after `text[count - 1]`. Returns the end of the positions.
    uint32_t* find(const uint8_t* text, size_t count, size_t after, uint32_t* out) const {
#if defined(CS336_X86)
#if defined(CS336_AVX512)
        if (simd_level_ == SimdLevel::AVX512) return find_avx512(text, count, after, out);
#endif
        if (simd_level_ >= SimdLevel::AVX2) return find_avx2(text, count, after, out);
#endif
#if defined(CS336_NEON)
        if (simd_level_ == SimdLevel::NEON) return find_neon(text, count, after, out);
#endif
        uint8_t space[CHUNK + 2];
        for (size_t i = 0; i < count; i += CHUNK) {
            const uint8_t* const chunk = chunk_at(text, i, count, after, space);
            if (is_below(chunk)) continue;
            uint64_t found = 0;
            for (size_t j = 0; j < CHUNK; ++j) {
                const uint8_t common = lead_masks_[chunk[j] & 0x3F] &
                                       second_masks_[chunk[j + 1] & 0x3F] &
                                       third_masks_[chunk[j + 2] & 0x3F];
                found |= uint64_t(chunk[j] >= 0xC0 && common) << j;
            }
            out = put_positions(found, uint32_t(i), out);
        }
        return out;
    }

    // The same for code points.
    template <class Unit>
    uint32_t* find(const Unit* text, size_t count, size_t after, uint32_t* out) const {
#if defined(CS336_X86)
        if (simd_level_ >= SimdLevel::AVX2) return find_codes_avx2(text, count, after, out);
#endif
        return find_codes(text, count, after, out);
    }

    // The chunk of a text that starts at unit `i`, and two more units. If they do not exist, the
    // chunk is copied to `space` and followed by zeros.
    template <class Unit>
    CS336_INLINE static const Unit* chunk_at(const Unit* text, size_t i, size_t count, size_t after,
                                             Unit (&space)[CHUNK + 2]) {
        const size_t left = count - i + after;
        if (left >= CHUNK + 2) return text + i;
        std::fill(std::begin(space), std::end(space), Unit(0));
        std::copy_n(text + i, left, space);
        return space;
    }

    // Whether all characters of a chunk are below the first one that is not of class 0.
    template <class Unit>
    CS336_INLINE bool is_below(const Unit* chunk) const {
        Unit largest = 0;  // this loop is vectorized
        for (size_t i = 0; i < CHUNK; ++i) largest = std::max(largest, chunk[i]);
        return largest < (sizeof(Unit) == 1 ? lead_ : first_);
    }

    // Write the positions of the bits that are set. Returns their end. Up to MAX_PUT positions
    // after the end are overwritten.
    CS336_INLINE static uint32_t* put_positions(uint64_t bits, uint32_t start, uint32_t* out) {
        constexpr uint64_t LAST = uint64_t(1) << 63;
        uint32_t* const end = out + std::bitset<64>(bits).count();
        do {
            for (size_t i = 0; i < MAX_PUT; ++i) {
                *out++ = start + uint32_t(lowest_bit(bits | LAST));
                bits &= bits - 1;
            }
        } while (bits);
        return end;
    }

    template <class Unit>
    CS336_INLINE uint32_t* find_codes(const Unit* text, size_t count, size_t after,
                                      uint32_t* out) const {
        const UnitRanges<Unit> ranges(ranges_);
        Unit space[CHUNK + 2];
        for (size_t i = 0; i < count; i += CHUNK) {
            const Unit* const chunk = chunk_at(text, i, count, after, space);
            if (!is_below(chunk)) out = put_positions(outside(chunk, ranges), uint32_t(i), out);
        }
        return out;
    }

    template <class Unit>
    struct UnitRanges {
        Unit first[NUM_RANGES], size[NUM_RANGES];

        explicit UnitRanges(const std::array<Range, NUM_RANGES>& ranges) {
            for (int j = 0; j < NUM_RANGES; ++j) {
                first[j] = Unit(ranges[j].first);
                size[j] = Unit(std::min(ranges[j].size, uint32_t(Unit(-1) - first[j])));
            }
        }
    };

    // The units of a chunk that are outside all ranges, as bits.
    template <class Unit>
    CS336_INLINE static uint64_t outside(const Unit* chunk, const UnitRanges<Unit>& ranges) {
        uint8_t others[CHUNK];
        Unit any = 0;
        for (size_t i = 0; i < CHUNK; ++i) {  // this loop is vectorized
            Unit is_other = 1;
            for (int j = 0; j < NUM_RANGES; ++j) {
                is_other &= Unit(chunk[i] - ranges.first[j]) >= ranges.size[j];
            }
            others[i] = uint8_t(is_other);
            any |= is_other;
        }
        if (!any) return 0;
        uint64_t found = 0;
        for (size_t i = 0; i < CHUNK; i += 8) {
            uint64_t eight;
            std::memcpy(&eight, others + i, 8);
            // The product's highest byte has the lowest bit of each of the eight bytes.
            found |= (eight * 0x0102040810204080ull >> 56) << i;
        }
        return found;
    }

#if defined(CS336_X86)
    template <class Unit>
    CS336_AVX2 uint32_t* find_codes_avx2(const Unit* text, size_t count, size_t after,
                                         uint32_t* out) const {
        return find_codes(text, count, after, out);
    }

    CS336_AVX2 static CS336_INLINE __m256i load_avx2(const uint8_t* bytes) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
    }

    // Look up the lowest six bits of 32 bytes in a table of 64.
    CS336_AVX2 static CS336_INLINE __m256i look_up_avx2(const Masks& table, __m256i bytes) {
        const __m256i index = _mm256_and_si256(bytes, _mm256_set1_epi8(0x3F));
        __m256i found = _mm256_setzero_si256();
        for (int j = 0; j < 4; ++j) {
            // The highest bit of an index outside this quarter is set, so its result is 0.
            const __m256i within = _mm256_add_epi8(
                _mm256_xor_si256(index, _mm256_set1_epi8(char(j << 4))), _mm256_set1_epi8(0x70));
            found = _mm256_or_si256(
                found, _mm256_shuffle_epi8(table_of_16(table.data() + 16 * j), within));
        }
        return found;
    }

    CS336_AVX2 static CS336_INLINE __m256i look_up_avx2(const Halves& table, __m256i bytes) {
        const __m256i low = _mm256_set1_epi8(0x0F), high = _mm256_srli_epi16(bytes, 4);
        return _mm256_and_si256(
            _mm256_shuffle_epi8(table_of_16(table.low.data()), _mm256_and_si256(bytes, low)),
            _mm256_shuffle_epi8(table_of_16(table.high.data()), _mm256_and_si256(high, low)));
    }

    CS336_AVX2 static CS336_INLINE __m256i table_of_16(const uint8_t* table) {
        return _mm256_broadcastsi128_si256(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    }

#if defined(CS336_AVX512)
    CS336_AVX512 uint32_t* find_avx512(const uint8_t* text, size_t count, size_t after,
                                       uint32_t* out) const {
        const __m512i leads = _mm512_loadu_si512(lead_masks_.data());
        const __m512i seconds = _mm512_loadu_si512(second_masks_.data());
        const __m512i thirds = _mm512_loadu_si512(third_masks_.data());
        uint8_t space[CHUNK + 2];
        for (size_t i = 0; i < count; i += CHUNK) {
            const uint8_t* const chunk = chunk_at(text, i, count, after, space);
            const __m512i first = _mm512_loadu_si512(chunk);
            // Bytes that start characters of another class are not less.
            const uint64_t is_first = _mm512_cmpge_epu8_mask(first, _mm512_set1_epi8(char(lead_)));
            if (!is_first) continue;
            // These lookups ignore the two highest bits of each byte.
            const __m512i second = _mm512_loadu_si512(chunk + 1);
            const __m512i third = _mm512_loadu_si512(chunk + 2);
            const uint64_t common =
                _mm512_test_epi8_mask(_mm512_and_si512(_mm512_permutexvar_epi8(first, leads),
                                                       _mm512_permutexvar_epi8(second, seconds)),
                                      _mm512_permutexvar_epi8(third, thirds));
            out = put_positions(common & is_first, uint32_t(i), out);
        }
        return out;
    }
#endif

    CS336_AVX2 uint32_t* find_avx2(const uint8_t* text, size_t count, size_t after,
                                   uint32_t* out) const {
        uint8_t space[CHUNK + 2];
        for (size_t i = 0; i < count; i += CHUNK) {
            const uint8_t* const chunk = chunk_at(text, i, count, after, space);
            const __m256i first[] = {load_avx2(chunk), load_avx2(chunk + 32)};
            // The difference is 0 for bytes below `lead_`.
            const __m256i zero = _mm256_setzero_si256();
            const __m256i beyond = _mm256_subs_epu8(_mm256_max_epu8(first[0], first[1]),
                                                    _mm256_set1_epi8(char(lead_ - 1)));
            if (_mm256_movemask_epi8(_mm256_cmpeq_epi8(beyond, zero)) == -1) continue;
            uint64_t found = 0;
            for (size_t j = 0; j < 2; ++j) {
                // Continuation bytes and ASCII are less as unsigned numbers.
                const __m256i least = _mm256_set1_epi8(char(0xC0));
                const __m256i is_first =
                    _mm256_cmpeq_epi8(_mm256_max_epu8(first[j], least), first[j]);
                const __m256i leads =
                    _mm256_and_si256(is_first, look_up_avx2(lead_masks_, first[j]));
                const __m256i common =
                    _mm256_and_si256(look_up_avx2(second_halves_, load_avx2(chunk + 32 * j + 1)),
                                     look_up_avx2(third_halves_, load_avx2(chunk + 32 * j + 2)));
                const __m256i none = _mm256_cmpeq_epi8(_mm256_and_si256(leads, common), zero);
                found |= uint64_t(~uint32_t(_mm256_movemask_epi8(none))) << (32 * j);
            }
            out = put_positions(found, uint32_t(i), out);
        }
        return out;
    }

#endif

#if defined(CS336_NEON)
    uint32_t* find_neon(const uint8_t* text, size_t count, size_t after, uint32_t* out) const {
        const auto load = [](const uint8_t* table) {
            return uint8x16x4_t{{vld1q_u8(table), vld1q_u8(table + 16), vld1q_u8(table + 32),
                                 vld1q_u8(table + 48)}};
        };
        const uint8x16x4_t leads = load(lead_masks_.data()), seconds = load(second_masks_.data());
        const uint8x16x4_t thirds = load(third_masks_.data());
        const uint8x16_t low = vdupq_n_u8(0x3F);
        constexpr uint8_t BITS[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
        uint8_t space[CHUNK + 2];
        for (size_t i = 0; i < count; i += CHUNK) {
            const uint8_t* const chunk = chunk_at(text, i, count, after, space);
            if (is_below(chunk)) continue;
            uint64_t found = 0;
            for (size_t j = 0; j < CHUNK; j += 16) {
                const uint8x16_t first = vld1q_u8(chunk + j), second = vld1q_u8(chunk + j + 1);
                const uint8x16_t third = vld1q_u8(chunk + j + 2);
                const uint8x16_t two = vandq_u8(vqtbl4q_u8(leads, vandq_u8(first, low)),
                                                vqtbl4q_u8(seconds, vandq_u8(second, low)));
                const uint8x16_t common = vtstq_u8(two, vqtbl4q_u8(thirds, vandq_u8(third, low)));
                const uint8x16_t result = vandq_u8(common, vcgeq_u8(first, vdupq_n_u8(0xC0)));
                const uint8x16_t bits = vandq_u8(result, vld1q_u8(BITS));
                found |= uint64_t(vaddv_u8(vget_low_u8(bits))) << j;
                found |= uint64_t(vaddv_u8(vget_high_u8(bits))) << (j + 8);
            }
            out = put_positions(found, uint32_t(i), out);
        }
        return out;
    }
#endif

    SimdLevel simd_level_ = SimdLevel::SCALAR;
    std::vector<uint8_t> class_table_;  // distinct blocks of 64 classes
    std::vector<uint32_t> blocks_;      // offset of each block in `class_table_`
    std::vector<uint64_t> pairs_;       // sorted
    uint32_t first_ = 0;                // the first code point of another class than 0
    uint8_t lead_ = 0;                  // its first byte in UTF-8
    Masks lead_masks_{}, second_masks_{}, third_masks_{};
    Halves second_halves_, third_halves_;
    std::array<Range, NUM_RANGES> ranges_{};
};

}  // namespace cs336
