// NormalCharacters: a quick check that text is in a Unicode normalization form.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "unicode/characters.hpp"

namespace cs336 {

// A set of characters, which includes ASCII. Every text of these characters, and every part of it,
// is normalized.
class NormalCharacters {
  public:
    NormalCharacters() = default;

    // Bit i of `blocks[b]` is set if the code point 64 * b + i is in the set.
    explicit NormalCharacters(std::vector<uint64_t> blocks) : blocks_(std::move(blocks)) {
        while (first_ < 0x7FF && contains(first_)) ++first_;
        lead_ = uint8_t(0xC0 | first_ >> 6);
        ideographs_ = true;
        for (uint32_t code = 0x4000; code < 0xA000; ++code) ideographs_ &= contains(code);
    }

    // Whether all characters of a text with one code point per unit are in the set.
    template <class Unit>
    bool contain_all(const Unit* text, size_t size) const {
        for (size_t i = 0; i < size; i += CHUNK) {
            const size_t end = std::min(size, i + CHUNK);
            Unit largest = 0;
            for (size_t at = i; at < end; ++at) largest = std::max(largest, text[at]);
            if (largest < first_) continue;
            for (size_t at = i; at < end; ++at) {
                if (!contains(text[at])) return false;
            }
        }
        return true;
    }

    // The same for valid UTF-8.
    bool contain_all_utf8(const uint8_t* text, size_t size) const {
        bool all = true;
        each_other(text, size, [&](size_t, size_t) { return all = false; });
        return all;
    }

    // Bytes `start` to `end` of a text: characters that may have to be normalized together.
    struct Run {
        size_t start, end;
    };

    // The runs of valid UTF-8: characters that are not in the set, and the one before them. Runs
    // with little text between them are one.
    std::vector<Run> runs(const uint8_t* text, size_t size) const {
        std::vector<Run> found;
        each_other(text, size, [&](size_t start, size_t end) {
            size_t before = start ? start - 1 : 0;
            while (before && (text[before] & 0xC0) == 0x80) --before;
            if (found.empty() || before > found.back().end + MAX_GAP) found.push_back({before, 0});
            found.back().end = end;
            return true;
        });
        return found;
    }

  private:
    static constexpr size_t CHUNK = 64;
    static constexpr size_t MAX_GAP = 32;
    static constexpr uint8_t FIRST_IDEOGRAPHS = 0xE4, AFTER_IDEOGRAPHS = 0xEA;  // first bytes

    bool contains(uint32_t code) const { return blocks_[code >> 6] >> (code & 63) & 1; }

    // Call `visit(start, end)` for the characters of UTF-8 that are not in the set, until it
    // returns false.
    template <class Visit>
    void each_other(const uint8_t* text, size_t size, Visit visit) const {
        for (size_t chunk = 0; chunk < size; chunk += CHUNK) {
            const size_t end = std::min(size, chunk + CHUNK);
            // Continuation bytes are less than `lead_`. This loop is vectorized.
            uint8_t largest = 0;
            for (size_t i = chunk; i < end; ++i) largest = std::max(largest, text[i]);
            if (largest < lead_) continue;
            for (size_t word = chunk; word < end; word += 8) {
                for (uint64_t doubtful = doubtful_bytes(text + word, end - word); doubtful;
                     doubtful &= doubtful - 1) {
                    const size_t i = word + lowest_bit(doubtful) / 8;
                    const WideCode code = wide_code(text + i);
                    const bool is_other = !(blocks_[code.block] >> code.index & 1);
                    if (is_other && !visit(i, i + code.length)) return;
                }
            }
        }
    }

    // Set the highest bit of each of the next eight bytes that may start a character outside the
    // set, in the order of the bytes.
    uint64_t doubtful_bytes(const uint8_t* text, size_t size) const {
        constexpr uint64_t EVERY = 0x0101010101010101ull, HIGH = 0x80 * EVERY;
        uint64_t bytes = 0;
        if (size >= 8) {  // a copy of constant size needs no call
            std::memcpy(&bytes, text, 8);
        } else {
            std::memcpy(&bytes, text, size);
        }
        const uint64_t starts = bytes & bytes << 1 & HIGH;  // of characters of two or more bytes
        const uint64_t low = bytes & 0x3F * EVERY;
        // Set the highest bit of bytes that are at least `limit`. No sum overflows its byte.
        const auto at_least = [&](uint8_t limit) { return low + (0x80 - (limit & 0x3F)) * EVERY; };
        const uint64_t ideographs = at_least(FIRST_IDEOGRAPHS) & ~at_least(AFTER_IDEOGRAPHS);
        return starts & at_least(lead_) & ~(ideographs_ ? ideographs : 0);
    }

    std::vector<uint64_t> blocks_;
    uint32_t first_ = 0x80;    // smaller code points are in the set
    uint8_t lead_ = 0;         // bytes that start characters outside the set are not less
    bool ideographs_ = false;  // whether U+4000 to U+9FFF are in the set
};

}  // namespace cs336
