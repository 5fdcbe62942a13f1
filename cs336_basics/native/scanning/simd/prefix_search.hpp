// PrefixSearch: finds offsets in a text where one of many tokens may start.
//
// The idea is Teddy's, a part of Hyperscan (Wang et al., "Hyperscan: A Fast Multi-pattern Regex
// Matcher for Modern CPUs", NSDI 2019). The first bytes of the tokens are put into 8 buckets, which
// are the bits of a byte. A token of a bucket may start at an offset only if the bucket has the
// first byte there as a first byte, the next byte as a second byte, and so on. SIMD instructions
// look up 16 values at once, so they look up the two halves of a byte one by one.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/compiler.hpp"
#include "base/simd_level.hpp"
#include "scanning/simd/avx2.hpp"
#include "scanning/simd/neon.hpp"
#include "scanning/simd/window.hpp"

namespace cs336 {

struct PrefixTables {
    static constexpr size_t LENGTH = 3;                  // of the prefixes
    static constexpr size_t READ = WINDOW + LENGTH - 1;  // bytes that decide on a window

    // The buckets of each byte, of its low half and of its high half, by offset in the prefix.
    uint8_t of_byte[LENGTH][256] = {};
    uint8_t of_low[LENGTH][16] = {}, of_high[LENGTH][16] = {};

    PrefixTables() = default;
    explicit PrefixTables(const std::vector<std::string>& tokens) {
        std::vector<std::string> prefixes;
        for (const std::string& token : tokens) prefixes.push_back(token.substr(0, LENGTH));
        std::sort(prefixes.begin(), prefixes.end());
        // A prefix that starts with another one finds nothing more.
        const auto starts_with = [](const std::string& a, const std::string& b) {
            return !b.compare(0, a.size(), a);
        };
        prefixes.erase(std::unique(prefixes.begin(), prefixes.end(), starts_with), prefixes.end());
        for (size_t i = 0; i < prefixes.size(); ++i) {
            // Prefixes that are similar are neighbors.
            add(prefixes[i], uint8_t(1 << (i * 8 / prefixes.size())));
        }
    }

  private:
    void add(const std::string& prefix, uint8_t bucket) {
        for (size_t k = 0; k < LENGTH; ++k) {
            const bool is_any = k >= prefix.size();
            for (size_t byte = 0; byte < 256; ++byte) {
                if (!is_any && byte != uint8_t(prefix[k])) continue;
                of_byte[k][byte] |= bucket;
                of_low[k][byte & 15] |= bucket;
                of_high[k][byte >> 4] |= bucket;
            }
        }
    }
};

// Move `window` to the first window with candidates, and return a mask of them; 0 if there is none
// before less than READ bytes are left. The result may contain more offsets at one SIMD level than
// at another, but always all offsets where a token starts.
using NextCandidates = uint64_t (*)(const PrefixTables& tables, const uint8_t* text, size_t size,
                                    size_t& window);

// Candidates in a row, as in a run of spaces, have one start, the first of them.
constexpr size_t MAX_STARTS = WINDOW / 2;  // in a window
constexpr size_t STARTS_SLACK = 8;

// Write the masks of the candidates in `count` windows, and the offsets of their starts. `starts`
// must have room for count * MAX_STARTS + STARTS_SLACK elements. Returns the number of starts. All
// READ bytes of the last window can be read.
using CandidateStarts = size_t (*)(const PrefixTables& tables, const uint8_t* text, size_t count,
                                   uint64_t* masks, uint32_t* starts);

// Define `next_candidates` and `candidate_starts` in the namespace of a SIMD level that has
// `candidates`. WRITE writes the set bits of a mask, as `positions` in window.hpp does.
#define CS336_DEFINE_CANDIDATES(TARGET, WRITE)                                                     \
    TARGET inline uint64_t next_candidates(const PrefixTables& tables, const uint8_t* text,        \
                                           size_t size, size_t& window) {                          \
        for (; size - window >= PrefixTables::READ; window += WINDOW) {                            \
            if (const uint64_t mask = candidates(tables, text + window)) return mask;              \
        }                                                                                          \
        return 0;                                                                                  \
    }                                                                                              \
    TARGET inline size_t candidate_starts(const PrefixTables& tables, const uint8_t* text,         \
                                          size_t count, uint64_t* masks, uint32_t* starts) {       \
        uint64_t before = 0;                                                                       \
        size_t found = 0;                                                                          \
        for (size_t i = 0; i < count; ++i) {                                                       \
            const uint64_t mask = candidates(tables, text + i * WINDOW);                           \
            masks[i] = mask;                                                                       \
            found += WRITE(mask & ~(mask << 1 | before), uint32_t(i * WINDOW), starts + found);    \
            before = mask >> 63;                                                                   \
        }                                                                                          \
        return found;                                                                              \
    }

namespace scalar {

CS336_INLINE uint64_t candidates(const PrefixTables& tables, const uint8_t* text) {
    const auto buckets = [&](size_t k, size_t i) { return tables.of_byte[k][text[i + k]]; };
    uint64_t mask = 0;
    for (size_t begin = 0; begin < WINDOW; begin += 8) {
        // Most groups of eight offsets have no candidate.
        uint8_t any = 0;
        for (size_t i = begin; i < begin + 8; ++i) any |= buckets(0, i) & buckets(1, i);
        if (!any) continue;
        for (size_t i = begin; i < begin + 8; ++i) {
            const bool found = (buckets(0, i) & buckets(1, i) & buckets(2, i)) != 0;
            mask |= uint64_t{found} << i;
        }
    }
    return mask;
}

CS336_DEFINE_CANDIDATES(, positions)

}  // namespace scalar

#if defined(CS336_X86)
namespace avx2 {

CS336_AVX2 CS336_INLINE uint64_t candidates(const PrefixTables& tables, const uint8_t* text) {
    const __m256i half = _mm256_set1_epi8(15);
    __m256i low = _mm256_set1_epi8(-1), high = low;
    for (size_t k = 0; k < PrefixTables::LENGTH; ++k) {
        const __m256i a = load(text + k), b = load(text + k + 32);
        const Halves x =
            look_up(tables.of_low[k], {_mm256_and_si256(a, half), _mm256_and_si256(b, half)});
        const Halves y =
            look_up(tables.of_high[k], {_mm256_and_si256(_mm256_srli_epi16(a, 4), half),
                                        _mm256_and_si256(_mm256_srli_epi16(b, 4), half)});
        low = _mm256_and_si256(low, _mm256_and_si256(x.low, y.low));
        high = _mm256_and_si256(high, _mm256_and_si256(x.high, y.high));
    }
    return intersect({low, high}, {low, high});
}

// Like `positions`, but four at a time and at least once, because whether a window has a start is
// hard to predict.
CS336_AVX2 CS336_INLINE size_t few_positions(uint64_t bits, uint32_t origin, uint32_t* out) {
    const size_t count = __builtin_popcountll(bits);
    size_t done = 0;
    do {
        for (int k = 0; k < 4; ++k) {
            out[done++] = origin + uint32_t(_tzcnt_u64(bits));
            bits &= bits - 1;
        }
    } while (CS336_UNLIKELY(bits));
    return count;
}

CS336_DEFINE_CANDIDATES(CS336_AVX2, few_positions)

}  // namespace avx2
#endif

#if defined(CS336_NEON)
namespace neon {

CS336_INLINE uint64_t candidates(const PrefixTables& tables, const uint8_t* text) {
    Quarters found = all(0xFF);
    for (size_t k = 0; k < PrefixTables::LENGTH; ++k) {
        Quarters low, high;
        for (int i = 0; i < 4; ++i) {
            const uint8x16_t bytes = vld1q_u8(text + k + 16 * i);
            low.v[i] = vandq_u8(bytes, vdupq_n_u8(15));
            high.v[i] = vshrq_n_u8(bytes, 4);
        }
        low = look_up(tables.of_low[k], low);
        high = look_up(tables.of_high[k], high);
        for (int i = 0; i < 4; ++i) {
            found.v[i] = vandq_u8(found.v[i], vandq_u8(low.v[i], high.v[i]));
        }
    }
    return intersect(found, found);
}

CS336_DEFINE_CANDIDATES(, positions)

}  // namespace neon
#endif

struct CandidateFunctions {
    NextCandidates next;
    CandidateStarts starts;
};

inline CandidateFunctions candidate_functions(SimdLevel simd_level) {
    switch (simd_level) {
#if defined(CS336_X86)
        case SimdLevel::AVX512:
        case SimdLevel::AVX2: return {avx2::next_candidates, avx2::candidate_starts};
#endif
#if defined(CS336_NEON)
        case SimdLevel::NEON: return {neon::next_candidates, neon::candidate_starts};
#endif
        default: return {scalar::next_candidates, scalar::candidate_starts};
    }
}

class PrefixSearch {
  public:
    PrefixSearch() = default;  // must not search
    PrefixSearch(const std::vector<std::string>& tokens, SimdLevel simd_level)
        : tables_(tokens), functions_(candidate_functions(simd_level)) {}

    // The candidates in a part of a text.
    struct Candidates {
        static constexpr size_t MAX_WINDOWS = 16;

        size_t begin = 0, end = 0;  // offsets in the text; equal if there are no more candidates
        size_t num_starts;
        uint64_t masks[MAX_WINDOWS];
        uint32_t starts[MAX_WINDOWS * MAX_STARTS + STARTS_SLACK];  // offsets from `begin`

        // Whether a token may start at an offset of this part.
        bool has(size_t offset) const {
            offset -= begin;
            return masks[offset / WINDOW] >> (offset % WINDOW) & 1;
        }
    };

    // Find the candidates in the first part at or after `from` <= `size` that has any.
    void find(const uint8_t* text, size_t size, size_t from, Candidates& found) const {
        size_t window = from;
        uint64_t mask = functions_.next(tables_, text, size, window);
        if (mask) {
            const size_t readable = (size - window - PrefixTables::READ) / WINDOW + 1;
            const size_t count = std::min(Candidates::MAX_WINDOWS, readable);
            found.num_starts =
                functions_.starts(tables_, text + window, count, found.masks, found.starts);
            found.begin = window;
            found.end = window + count * WINDOW;
            return;
        }
        while (!mask && window < size) {
            // Copy the rest of the text, because nothing after it may be read.
            const size_t rest = size - window;
            uint8_t copy[PrefixTables::READ] = {};
            std::memcpy(copy, text + window, std::min(rest, sizeof copy));
            size_t start = 0;
            mask = functions_.next(tables_, copy, sizeof copy, start);
            if (rest < WINDOW) mask &= (uint64_t{1} << rest) - 1;
            if (!mask) window += std::min(rest, WINDOW);
        }
        found.masks[0] = mask;
        found.begin = window;
        found.end = window + (mask ? std::min(size - window, WINDOW) : 0);
        found.num_starts = scalar::positions(mask & ~(mask << 1), 0, found.starts);
    }

  private:
    PrefixTables tables_;
    CandidateFunctions functions_ = {};
};

}  // namespace cs336
