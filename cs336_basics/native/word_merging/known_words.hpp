// KnownWords: words whose ids are known without merging, because they are tokens.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "base/word_key.hpp"
#include "word_merging/words.hpp"

namespace cs336 {

// More than half of the new words of a text are tokens, and a lookup takes a fraction of the time
// of merging. This needs `self_made_tokens`, which takes more time than it saves in a text of a few
// megabytes, so only encoders that need it anyway know words.
class KnownWords {
  public:
    static constexpr uint32_t NO_ID = Words::NO_ID;

    KnownWords() = default;  // knows no words
    // `is_self_made` is the result of `self_made_tokens`. `words` must outlive this object.
    KnownWords(const Words& words, const std::vector<uint8_t>& is_self_made)
        : words_(&words), is_known_((is_self_made.size() + 63) / 64) {
        for (size_t id = 0; id < is_self_made.size(); ++id) {
            is_known_[id / 64] |= uint64_t{is_self_made[id]} << id % 64;
        }
    }

    // Start to read what `find` needs.
    CS336_INLINE void prefetch(const WordKey& key) const {
        if (words_) words_->prefetch(key);
    }

    // The id of a word of at most MAX_SHORT_WORD bytes, or NO_ID. The key has the seed of the
    // process.
    CS336_INLINE uint32_t find(const WordKey& key) const {
        if (!words_) return NO_ID;
        const uint32_t id = words_->find(key);
        return id / 64 < is_known_.size() && is_known_[id / 64] >> id % 64 & 1 ? id : NO_ID;
    }

  private:
    const Words* words_ = nullptr;
    std::vector<uint64_t> is_known_;  // a bit for each id
};

}  // namespace cs336
