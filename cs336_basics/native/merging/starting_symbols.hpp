// StartingSymbols: applies the merges of an existing vocabulary to the words in new text, in
// several threads and with the encoder, for which a line of many words is not one long word.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/simd_level.hpp"
#include "encoding/superword_encoder.hpp"
#include "word_merging/merge_table.hpp"
#include "word_merging/word_merger.hpp"

namespace cs336 {

// Symbols are ids: 0 to 255 for the bytes, then one for each distinct merged token. In every word,
// the pair with the lowest rank is merged first and, for equal ranks, the leftmost.
template <class Token>
class StartingSymbols {
  public:
    // `merges` has three ids for every rank: left, right, merged. `tokens` are the merged tokens,
    // with the ids from 256 on. Throws std::length_error.
    StartingSymbols(const std::vector<uint32_t>& merges, const std::vector<std::string>& tokens)
        : table_(byte_symbols().data(), merges.data(), merges.size() / 3),
          encoder_(make_typed_encoder<Token>(byte_symbols().data(), merges.data(),
                                             joins_of(merges, tokens), CACHE_BYTES, Scanner(),
                                             best_simd_level())) {}

    // Merges words in one thread.
    class Worker {
      public:
        explicit Worker(const StartingSymbols& symbols)
            : merger_(symbols.table_, best_simd_level(), is_cancelled_),
              encoder_(symbols.encoder_->make_worker(0)) {}

        // Write the symbols of a word, at most `length` > 0; OUTPUT_SLACK more may be overwritten.
        // Returns their number. The bytes up to `readable_end` can be read.
        size_t merge(const uint8_t* word, size_t length, const uint8_t* readable_end, Token* out) {
            // The words are distinct, so a short one is not worth a place in the cache.
            if (length <= MAX_WORD) return size_t(merger_.merge(word, length, out) - out);
            return encoder_->encode_word(word, length, readable_end, out);
        }

      private:
        static constexpr size_t MAX_WORD = 32;  // bytes; longer ones may have several words

        const std::atomic<bool> is_cancelled_{false};
        WordMerger<Token> merger_;
        const std::unique_ptr<EncodingWorker> encoder_;
    };

  private:
    static constexpr size_t CACHE_BYTES = size_t{1} << 27;  // for all threads

    static std::vector<uint32_t> byte_symbols() {
        std::vector<uint32_t> symbols(256);
        std::iota(symbols.begin(), symbols.end(), 0);
        return symbols;
    }

    static std::vector<Join> joins_of(const std::vector<uint32_t>& merges,
                                      const std::vector<std::string>& tokens) {
        uint8_t bytes[256];
        std::iota(bytes, bytes + 256, uint8_t{0});
        const auto span = [&](uint32_t id) {
            if (id < 256) return TextSpan{bytes + id, 1};
            const std::string& token = tokens[id - 256];
            return TextSpan{reinterpret_cast<const uint8_t*>(token.data()), token.size()};
        };
        std::vector<Join> joins;
        for (size_t i = 0; i < merges.size(); i += 3) {
            joins.push_back(join_of(span(merges[i]), span(merges[i + 1])));
        }
        return joins;
    }

    const MergeTable<Token> table_;
    const std::unique_ptr<Encoder> encoder_;
};

}  // namespace cs336
