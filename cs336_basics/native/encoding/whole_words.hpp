// WholeWords: pre-tokens that become one token regardless of the merges (`ignore_merges`).

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace cs336 {

// A token and its id.
using WholeWord = std::pair<std::string, uint32_t>;

// Maps words to ids with a sorted array, so that no input can make lookups slow. The array contains
// only the tokens that the merges do not produce, usually only a few. Only new words are looked up.
class WholeWords {
  public:
    WholeWords() = default;
    explicit WholeWords(std::vector<WholeWord> words) : words_(std::move(words)) {
        std::sort(words_.begin(), words_.end());
        for (const WholeWord& word : words_) longest_ = std::max(longest_, word.first.size());
    }

    // The id of a word, or null.
    const uint32_t* find(const uint8_t* word, size_t length) const {
        if (length > longest_) return nullptr;
        const auto found = std::lower_bound(
            words_.begin(), words_.end(), word, [length](const WholeWord& known, const uint8_t* w) {
                const size_t size = known.first.size();
                const int order = std::memcmp(known.first.data(), w, std::min(size, length));
                return order ? order < 0 : size < length;
            });
        const bool equal = found != words_.end() && found->first.size() == length &&
                           !std::memcmp(found->first.data(), word, length);
        return equal ? &found->second : nullptr;
    }

  private:
    std::vector<WholeWord> words_;
    size_t longest_ = 0;
};

}  // namespace cs336
