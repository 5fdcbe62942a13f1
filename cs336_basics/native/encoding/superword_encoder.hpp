// SuperwordEncoder: encodes text with a vocabulary whose last merges join words.
//
// A pre-token is a line or another long stretch of text. First, its words are encoded with the
// merges within words, mostly by looking them up. Then, the resulting symbols are cut where no
// merge joins two of them, and the few symbols between two cuts are merged.

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
#include "encoding/superwords.hpp"
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
              words_(encoder.words_.make_worker(budget, cancelled)) {}

        size_t encode(const uint8_t* text, size_t size, const SpecialIds& special, void* output,
                      uint32_t separator, std::vector<int64_t>* ends) override {
            return encode_around_special(
                text, size, special, static_cast<Id*>(output), separator, ends,
                [&](const uint8_t* part, size_t part_size, Id* out) {
                    const auto encode_one = [&](const uint8_t* word, size_t length) {
                        out += encode_word(word, length, text + size, out);
                    };
                    scanner_.scan(
                        part, part_size,
                        [&](const uint8_t* first, const uint32_t* word_ends, size_t count) {
                            for (size_t i = 0; i < count; ++i) {
                                const uint32_t start = i ? word_ends[i - 1] : 0;
                                encode_one(first + start, word_ends[i] - start);
                            }
                        },
                        encode_one);
                    return out;
                });
        }

        size_t encode_short(const uint8_t* text, size_t size, const SpecialIds& special,
                            void* output) override {
            if (special.tokens.may_occur_in(text, size)) {
                return encode(text, size, special, output, NO_ID, nullptr);
            }
            uint32_t ends[BATCH_CAPACITY];
            const size_t num_words = scanner_.fill_short(text, size, ends);
            Id* const begin = static_cast<Id*>(output);
            Id* out = begin;
            for (size_t i = 0; i < num_words; ++i) {
                const uint32_t start = i ? ends[i - 1] : 0;
                out += encode_word(text + start, ends[i] - start, text + size + WORD_PADDING, out);
            }
            return out - begin;
        }

        void encode_bytes(const uint8_t* bytes, size_t size, void* output) override {
            words_->encode_bytes(bytes, size, output);
        }

        size_t encode_word(const uint8_t* word, size_t length, const uint8_t* readable_end,
                           void* output) override {
            Id* const symbols = static_cast<Id*>(output);
            const size_t num_symbols = words_->encode_word(word, length, readable_end, output);
            return join_words(symbols, symbols + num_symbols) - symbols;
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

        // Merge symbols in place; the merges of the first step have been applied. Returns the end
        // of the ids.
        Id* join_words(Id* const symbols, const Id* const end) {
            constexpr ptrdiff_t BLOCK = 64;  // boundaries
            Id* out = symbols;
            const Id* first = symbols;  // of the symbols since the last cut
            for (const Id* start = symbols; start < end; start += BLOCK) {
                const ptrdiff_t count = std::min<ptrdiff_t>(BLOCK, end - start);
                // A bit for every symbol that no merge joins with the next one. No branch depends
                // on the single boundaries, because they are unpredictable.
                uint64_t cuts = 0;
                const ptrdiff_t num_pairs = std::min<ptrdiff_t>(count, end - start - 1);
                for (ptrdiff_t i = 0; i < num_pairs; ++i) {
                    cuts |= uint64_t(!superwords_.may_join(start[i], start[i + 1])) << i;
                }
                if (num_pairs < count) cuts |= uint64_t{1} << num_pairs;
                for (; cuts; cuts &= cuts - 1) {
                    const Id* const next = start + lowest_bit(cuts) + 1;
                    if (next - first == 1) {
                        *out++ = *first;
                    } else {
                        out = merge(first, size_t(next - first), out);
                    }
                    first = next;
                }
            }
            return out;
        }

        // Merge two or more symbols, which no merge joins with their neighbors. `out` may be at
        // `symbols` or before.
        CS336_INLINE Id* merge(const Id* symbols, size_t count, Id* out) {
            if (count == 2) return merge_pair(symbols[0], symbols[1], out);
            // The merger reads all symbols before it writes ids.
            if (count > 3) return merger_.merge(symbols, count, out);
            const Id a = symbols[0], b = symbols[1], c = symbols[2];
            const uint32_t first = merges_.rank(a, b), second = merges_.rank(b, c);
            const uint32_t rank = std::min(first, second);
            if (rank == MergeTable<Id>::NO_RANK) {
                out[0] = a;
                out[1] = b;
                out[2] = c;
                return out + 3;
            }
            const Id merged = merges_.merged(rank);
            const bool is_left = first <= second;
            return merge_pair(is_left ? merged : a, is_left ? c : merged, out);
        }

        CS336_INLINE Id* merge_pair(Id left, Id right, Id* out) const {
            const uint32_t rank = merges_.rank(left, right);
            const bool is_merged = rank != MergeTable<Id>::NO_RANK;
            out[0] = is_merged ? merges_.merged(rank) : left;
            out[1] = right;
            return out + 2 - is_merged;
        }

        const SuperwordEncoder& encoder_;
        const std::shared_ptr<CacheBudget> budget_;
        std::unique_ptr<EncodingWorker> whole_;  // made when it is needed
        const SuperwordMerges<Id>& superwords_;
        const MergeTable<Id>& merges_;
        const Scanner scanner_;
        WordMerger<Id> merger_;
        const std::unique_ptr<EncodingWorker> words_;
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
