// SuperwordEncoder: encodes text with a vocabulary whose last merges join words.
//
// A pre-token is a line or another long stretch of text. First, its words are encoded with the
// merges within words, mostly by looking them up. Then, the resulting symbols are cut where no
// merge joins two of them, and the few symbols between two cuts are merged. Both is done for many
// pre-tokens at once, because code and poems have short lines. The ids of short lines that recur
// are in a cache.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "encoding/encoder.hpp"
#include "encoding/line_cutter.hpp"
#include "encoding/superwords.hpp"
#include "encoding/symbol_joiner.hpp"
#include "word_merging/merge_table.hpp"
#include "word_merging/word_merger.hpp"

namespace cs336 {

template <class Id>
class SuperwordEncoder final : public Encoder {
  public:
    // The arguments are those of TypedEncoder. `superwords` must be useful.
    SuperwordEncoder(const uint32_t* byte_ids, const uint32_t* merges,
                     const std::vector<Join>& joins, SuperwordMerges<Id> superwords,
                     size_t cache_bytes, Scanner scanner, SimdLevel simd_level)
        : superwords_(std::move(superwords)),
          merges_(byte_ids, merges + 3 * superwords_.first_rank(),
                  joins.size() - superwords_.first_rank()),
          words_(byte_ids, merges,
                 {joins.begin(), joins.begin() + ptrdiff_t(superwords_.first_rank())}, cache_bytes,
                 scanner, simd_level),
          scanner_(scanner),
          simd_level_(simd_level),
          make_whole_([bytes = std::vector<uint32_t>(byte_ids, byte_ids + 256),
                       all = std::vector<uint32_t>(merges, merges + 3 * joins.size()), joins,
                       cache_bytes, scanner = scanner_, simd_level] {
              return std::make_unique<TypedEncoder<Id>>(bytes.data(), all.data(), joins,
                                                        cache_bytes, scanner, simd_level);
          }) {}

    std::unique_ptr<EncodingWorker> make_worker(size_t cache_bytes) override {
        return std::make_unique<Worker>(*this, words_.budget_of_worker(cache_bytes));
    }

  private:
    class Worker final : public EncodingWorker {
      public:
        Worker(const SuperwordEncoder& encoder, const std::shared_ptr<CacheBudget>& budget)
            : encoder_(encoder),
              budget_(budget),
              superwords_(encoder.superwords_),
              merges_(encoder.merges_),
              scanner_(encoder.scanner_),
              merger_(encoder.merges_, encoder.simd_level_, cancelled),
              joiner_(superwords_, merges_, merger_),
              lines_(budget),
              words_(encoder.words_.make_worker(budget, cancelled)) {}

        size_t encode(const uint8_t* text, size_t size, const SpecialIds& special, void* output,
                      uint32_t separator, std::vector<int64_t>* ends) override {
            words_->start(text + size);
            joiner_.clear();
            return encode_around_special(
                text, size, special, static_cast<Id*>(output), separator, ends,
                [&](const uint8_t* part, size_t part_size, Id* out) {
                    scanner_.scan(
                        part, part_size,
                        [&](const uint8_t* first, const uint32_t* word_ends, size_t count) {
                            out = encode_batch(first, word_ends, count, out);
                        },
                        [&](const uint8_t* word, size_t length) {
                            out = encode_words(LineCutter(joins_, word, length), out);
                        });
                    return out;
                });
        }

        size_t encode_short(const uint8_t* text, size_t size, const SpecialIds& special,
                            void* output) override {
            if (special.tokens.may_occur_in(text, size)) {
                return encode(text, size, special, output, NO_ID, nullptr);
            }
            words_->start(text + size + WORD_PADDING);
            joiner_.clear();
            uint32_t ends[BATCH_CAPACITY];
            const size_t num_words = scanner_.fill_short(text, size, ends);
            Id* const begin = static_cast<Id*>(output);
            return encode_batch(text, ends, num_words, begin) - begin;
        }

        void encode_bytes(const uint8_t* bytes, size_t size, void* output) override {
            words_->encode_bytes(bytes, size, output);
        }

        size_t encode_word(const uint8_t* word, size_t length, const uint8_t* readable_end,
                           void* output) override {
            if (!length) return 0;
            words_->start(readable_end);
            joiner_.clear();
            Id* const begin = static_cast<Id*>(output);
            return encode_words(LineCutter(joins_, word, length), begin) - begin;
        }

        size_t encode_dropped(const uint8_t* text, size_t size, const SpecialIds& special,
                              const Dropout& dropout, uint64_t offset, void* output) override {
            return whole().encode_dropped(text, size, special, dropout, offset, output);
        }

        size_t drop_word(const uint8_t* word, size_t length, const Dropout& dropout,
                         uint64_t offset, void* output) override {
            return whole().drop_word(word, length, dropout, offset, output);
        }

      private:
        // With dropout, the merges within words are not complete before those of superwords, so
        // that all merges are applied in one step.
        EncodingWorker& whole() {
            if (!whole_) {
                whole_ = encoder_.whole().make_worker(budget_, cancelled);
            }
            return *whole_;
        }

        // Encode the pre-tokens of a batch; see Scanner::scan. If they are short, as in code, some
        // have occurred before and are in the cache.
        Id* encode_batch(const uint8_t* first, const uint32_t* ends, size_t count, Id* out) {
            if (!count || ends[count - 1] / count >= SHORT_LINE) {
                return encode_lines(first, 0, ends, count, out);
            }
            size_t done = 0;
            uint32_t start = 0, done_start = 0;
            for (size_t i = 0; i < count; start = ends[i++]) {
                const size_t length = ends[i] - start;
                if (length <= MAX_SHORT_WORD || length > Cache::MAX_WORD) continue;
                const uint8_t* const line = first + start;
                const WordKey key = lines_.rare_key(line, length);
                const typename Cache::Entry* const entry = lines_.find(key, line);
                if (!entry && !was_seen(key)) continue;
                out = encode_lines(first, done_start, ends + done, i - done, out);
                if (entry) {
                    const Id* const ids = Cache::ids(*entry, key);
                    out = std::copy(ids, ids + Cache::num_ids(*entry), out);
                } else {
                    const Id* const ids = out;
                    out = encode_lines(first, start, ends + i, 1, out);
                    lines_.insert(key, line, ids, size_t(out - ids));
                }
                done = i + 1;
                done_start = ends[i];
            }
            return encode_lines(first, done_start, ends + done, count - done, out);
        }

        // Whether a line has probably occurred before. WordCache::was_seen is always true while the
        // table is small, so that lines would be encoded one by one.
        bool was_seen(const WordKey& key) {
            if (seen_.empty()) seen_.resize(size_t{1} << SEEN_BITS);
            uint8_t& seen = seen_[key.hash >> (64 - SEEN_BITS)];
            const uint8_t next_bits = uint8_t(key.hash >> (56 - SEEN_BITS)) | 1;
            const bool equal = seen == next_bits;
            seen = next_bits;
            return equal;
        }

        // Encode pre-tokens that follow each other from `start` on. They are encoded together,
        // except where a merge joins the end of one with the start of the next.
        Id* encode_lines(const uint8_t* first, uint32_t start, const uint32_t* ends, size_t count,
                         Id* out) {
            for (size_t i = 0, last = 0; i < count; i = last + 1) {
                for (last = i; last + 1 < count; ++last) {
                    const uint8_t* const end = first + ends[last];
                    if (superwords_.may_meet(end[-1], end[0])) break;
                }
                out = encode_words(LineCutter(joins_, first + start, ends[last] - start, first,
                                              ends + i, last - i),
                                   out);
                start = ends[last];
            }
            return out;
        }

        Id* encode_words(LineCutter cutter, Id* out) {
            const uint8_t* start;
            uint32_t ends[LineCutter::CAPACITY];
            while (const size_t count = cutter.fill(start, ends)) {
                const Id* const end =
                    words_->encode_parts(start, ends, count, joiner_.place(ends[count - 1]));
                out = joiner_.join(end, cutter.is_done(), out);
            }
            joiner_.trim();
            return out;
        }

        using Cache = WordCache<Id>;
        static constexpr size_t SHORT_LINE = 64;  // bytes, the mean of a batch
        static constexpr int SEEN_BITS = 16;

        const SuperwordEncoder& encoder_;
        const std::shared_ptr<CacheBudget> budget_;
        std::unique_ptr<EncodingWorker> whole_;  // made when it is needed
        const SuperwordMerges<Id>& superwords_;
        const MergeTable<Id>& merges_;
        const JoinFilter& joins_ = encoder_.words_.joins();
        const Scanner scanner_;
        WordMerger<Id> merger_;
        SymbolJoiner<Id> joiner_;
        Cache lines_;
        std::vector<uint8_t> seen_;  // index: first bits of a line's hash; value: the next bits
        const std::unique_ptr<typename TypedEncoder<Id>::Worker> words_;
    };

    // The encoder of all merges, which is made when it is needed.
    const TypedEncoder<Id>& whole() const {
        std::call_once(is_made_, [this] { whole_ = make_whole_(); });
        return *whole_;
    }

    const SuperwordMerges<Id> superwords_;
    const MergeTable<Id> merges_;  // of the second step
    TypedEncoder<Id> words_;
    const Scanner scanner_;
    const SimdLevel simd_level_;
    const std::function<std::unique_ptr<TypedEncoder<Id>>()> make_whole_;
    mutable std::once_flag is_made_;
    mutable std::unique_ptr<TypedEncoder<Id>> whole_;
};

template <class Id>
std::unique_ptr<Encoder> make_typed_encoder(const uint32_t* byte_ids, const uint32_t* merges,
                                            const std::vector<Join>& joins, size_t cache_bytes,
                                            Scanner scanner, SimdLevel simd_level,
                                            const WholeWords& whole_words = {}) {
    if (whole_words.empty()) {
        SuperwordMerges<Id> superwords(merges, joins);
        if (superwords.are_useful()) {
            return std::make_unique<SuperwordEncoder<Id>>(byte_ids, merges, joins,
                                                          std::move(superwords), cache_bytes,
                                                          std::move(scanner), simd_level);
        }
    }
    return std::make_unique<TypedEncoder<Id>>(byte_ids, merges, joins, cache_bytes,
                                              std::move(scanner), simd_level, whole_words);
}

// Return an encoder with 16-bit ids if `narrow`, otherwise with 32-bit ids. The other arguments are
// those of TypedEncoder.
template <class... Arguments>
std::unique_ptr<Encoder> make_encoder(bool narrow, Arguments&&... arguments) {
    if (narrow) return make_typed_encoder<uint16_t>(std::forward<Arguments>(arguments)...);
    return make_typed_encoder<uint32_t>(std::forward<Arguments>(arguments)...);
}

}  // namespace cs336
