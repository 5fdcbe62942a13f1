// UnmergedWords: pre-tokens that become one token regardless of the merges, which do not make it.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/compiler.hpp"
#include "base/hashing.hpp"
#include "base/memory.hpp"
#include "base/word_key.hpp"
#include "unicode/text_view.hpp"

namespace cs336 {

// Usually there are only a few. They are in a sorted map, so that no input can make lookups slow.
// A filter rejects almost all other words first.
class UnmergedWords {
  public:
    bool empty() const { return ids_.empty(); }

    void add(const TextSpan& word, uint32_t id) {
        ids_.emplace(std::string(reinterpret_cast<const char*>(word.data), word.size), id);
        uint8_t padded[WORD_PADDING] = {};
        std::copy(word.data, word.data + std::min(word.size, WORD_PADDING), padded);
        const WordKey key = word.size > MAX_SHORT_WORD
                                ? make_long_key(process_hash_seed(), word.data, word.size)
                                : make_short_key(process_hash_seed(), padded, word.size);
        if (filter_.empty()) filter_.resize(size_t{1} << FILTER_BITS);
        filter_[key.hash >> (64 - FILTER_BITS)] = true;
    }

    // The id of a word, or null. `hash` is that of its key with the seed of the process, or 0.
    CS336_INLINE const uint32_t* find(uint64_t hash, const uint8_t* word, size_t length) const {
        if (empty() || (hash && !filter_[hash >> (64 - FILTER_BITS)])) return nullptr;
        const auto found = ids_.find(std::string_view(reinterpret_cast<const char*>(word), length));
        return found == ids_.end() ? nullptr : &found->second;
    }

  private:
    static constexpr int FILTER_BITS = 16;

    std::map<std::string, uint32_t, std::less<>> ids_;
    std::vector<bool> filter_;  // whether a word has a hash with these first bits
};

}  // namespace cs336
