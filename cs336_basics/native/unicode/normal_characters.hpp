// NormalCharacters: a quick check that text is in a Unicode normalization form.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "unicode/characters.hpp"

namespace cs336 {

// A set of characters. Every text of these characters, and every part of it, is normalized.
class NormalCharacters {
  public:
    NormalCharacters() = default;

    // Bit i of `blocks[b]` is set if the code point 64 * b + i is in the set.
    explicit NormalCharacters(std::vector<uint64_t> blocks) : blocks_(std::move(blocks)) {
        while (first_ < 64 * blocks_.size() && contains(first_)) ++first_;
        first_ = std::min(first_, 0x7FFu);
        // The first byte of the character U+`first_` in UTF-8, and of no smaller character.
        lead_ = first_ < 0x80 ? uint8_t(first_) : uint8_t(0xC0 | first_ >> 6);
    }

    // Whether all characters of a text with one code point per unit are in the set.
    template <class Unit>
    bool contain_all(const Unit* text, size_t size) const {
        for (size_t i = 0; i < size; i += CHUNK) {
            const size_t end = std::min(size, i + CHUNK);
            if (largest(text + i, end - i) < first_) continue;
            for (size_t at = i; at < end; ++at) {
                if (!contains(text[at])) return false;
            }
        }
        return true;
    }

    // The same for valid UTF-8.
    bool contain_all_utf8(const uint8_t* text, size_t size) const {
        for (size_t i = 0; i < size;) {
            const size_t end = std::min(size, i + CHUNK);
            if (largest(text + i, end - i) < lead_) {  // its characters are below `first_`
                for (i = end; i < size && (text[i] & 0xC0) == 0x80;) ++i;
                continue;
            }
            while (i < end) {
                if (text[i] < 0x80) {
                    if (!contains(text[i++])) return false;
                    continue;
                }
                const WideCode code = wide_code(text + i);
                if (!(blocks_[code.block] >> code.index & 1)) return false;
                i += code.length;
            }
        }
        return true;
    }

  private:
    static constexpr size_t CHUNK = 64;

    bool contains(uint32_t code) const { return blocks_[code >> 6] >> (code & 63) & 1; }

    template <class Unit>
    static Unit largest(const Unit* text, size_t size) {
        Unit found = 0;
        for (size_t i = 0; i < size; ++i) found = std::max(found, text[i]);
        return found;
    }

    std::vector<uint64_t> blocks_;
    uint32_t first_ = 0;  // smaller code points are in the set
    uint8_t lead_ = 0;
};

}  // namespace cs336
