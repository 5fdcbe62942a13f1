// Encoder: encodes text to ids by byte-pair encoding.
//
// The text is cut at its special tokens and split into pre-tokens. The cache contains the ids of
// most pre-tokens. Short new pre-tokens are merged as a group at the end of a batch. Long ones are
// cut into segments, and the cache contains the ids of most segments. Data that depends only on the
// vocabulary is immutable and shared by all threads. Data that changes belongs to a worker, which
// only one thread uses at a time.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "base/failure.hpp"
#include "base/hashing.hpp"
#include "base/memory.hpp"
#include "base/word_key.hpp"
#include "encoding/gaps.hpp"
#include "encoding/join_filter.hpp"
#include "encoding/joined_spans.hpp"
#include "encoding/line_cutter.hpp"
#include "word_merging/known_words.hpp"
#include "word_merging/merge_table.hpp"
#include "word_merging/self_made_tokens.hpp"
#include "encoding/segment_cutter.hpp"
#include "encoding/word_cache.hpp"
#include "word_merging/dropout_merger.hpp"
#include "word_merging/unmerged_words.hpp"
#include "word_merging/word_group_merger.hpp"
#include "word_merging/word_merger.hpp"
#include "word_merging/words.hpp"
#include "scanning/scanner.hpp"
#include "scanning/special_tokens.hpp"

namespace cs336 {

// This many elements after the last id may be overwritten, because ids are stored 16 bytes at a
// time.
constexpr size_t OUTPUT_SLACK = 8;

// Stands for the id of a separator if there is none.
constexpr uint32_t NO_ID = UINT32_MAX;

// Maximum size in bytes of a buffer that is kept after use.
constexpr size_t MAX_KEPT_BUFFER = size_t{1} << 24;

// The special tokens to cut out of a text, longest first, and their ids.
struct SpecialIds {
    SpecialTokens tokens;
    std::vector<uint32_t> ids;
};

// The encoding state of one thread.
class EncodingWorker {
  public:
    // After another thread sets this flag, `encode` soon throws Cancelled.
    std::atomic<bool> cancelled{false};
    // Memory where callers store ids and UTF-8 text.
    Buffer output, text;

    virtual ~EncodingWorker() = default;
    // Free buffers that are too large to keep.
    void trim() {
        output.trim(MAX_KEPT_BUFFER);
        text.trim(MAX_KEPT_BUFFER);
    }
    // Write the ids of a text to `out`, and return their number. The text must be valid UTF-8.
    // `out` must have room for `size` + OUTPUT_SLACK elements of `id_size` bytes. If `ends` is not
    // null, append the number of ids up to and including each special token with the id
    // `separator`. Throws Cancelled.
    virtual size_t encode(const uint8_t* text, size_t size, const SpecialIds& special, void* out,
                          uint32_t separator, std::vector<int64_t>* ends) = 0;
    // Like `encode`, for a text of at most MAX_SHORT_TEXT bytes, which SPACES_AFTER spaces follow.
    virtual size_t encode_short(const uint8_t* text, size_t size, const SpecialIds& special,
                                void* out) = 0;
    // Write the id of each byte. The required room and the errors are the same as for `encode`.
    virtual void encode_bytes(const uint8_t* bytes, size_t size, void* out) = 0;
    // Like `encode`, but for a single pre-token. The bytes up to `readable_end` can be read.
    virtual size_t encode_word(const uint8_t* word, size_t length, const uint8_t* readable_end,
                               void* out) = 0;
    // Like `encode`, with dropout. The text starts `offset` bytes after the start of its document.
    virtual size_t encode_dropped(const uint8_t* text, size_t size, const SpecialIds& special,
                                  const Dropout& dropout, uint64_t offset, void* out) = 0;
    // Like `encode_word`, with dropout.
    virtual size_t drop_word(const uint8_t* word, size_t length, const Dropout& dropout,
                             uint64_t offset, void* out) = 0;
};

// Write the ids of a text to `out`; see EncodingWorker::encode. `encode_ordinary(text, size, out)`
// writes the ids of text without special tokens and returns their end.
template <class Id, class EncodeOrdinary>
size_t encode_around_special(const uint8_t* text, size_t size, const SpecialIds& special, Id* out,
                             uint32_t separator, std::vector<int64_t>* ends,
                             EncodeOrdinary encode_ordinary) {
    Id* const begin = out;
    if (!special.tokens.may_occur_in(text, size)) return encode_ordinary(text, size, out) - begin;
    Occurrences occurrences(special.tokens, text, size);
    size_t start = 0;
    while (start < size) {
        const Occurrence found = occurrences.next(start);
        out = encode_ordinary(text + start, found.offset - start, out);
        start = found.offset + found.length;
        if (!found.length) break;
        const uint32_t id = special.ids[found.token];
        *out++ = Id(id);
        if (ends && id == separator) ends->push_back(out - begin);
    }
    return out - begin;
}

// A pre-token that becomes one token regardless of the merges (`ignore_merges`), and its id.
struct WholeWord {
    TextSpan word;
    uint32_t id;
};
using WholeWords = std::vector<WholeWord>;

// A vocabulary prepared for encoding. This is the base class for the different id widths.
class Encoder {
  public:
    virtual ~Encoder() = default;
    // If `cache_bytes` is 0, the worker's cache shares the encoder's budget. Otherwise, the cache
    // has its own budget of `cache_bytes`.
    virtual std::unique_ptr<EncodingWorker> make_worker(size_t cache_bytes) = 0;
};

template <class Id>
class TypedEncoder final : public Encoder {
  public:
    // `byte_ids` and `merges` are the same as for MergeTable, and `joins` contains the join of
    // each merge. `cache_bytes` is the budget that the workers' caches share. If there are whole
    // words, new words are looked up in `words`, which must outlive this object, before they are
    // merged, unless it is null.
    TypedEncoder(const uint32_t* byte_ids, const uint32_t* merges, const std::vector<Join>& joins,
                 size_t cache_bytes, Scanner scanner, SimdLevel simd_level,
                 const WholeWords& whole_words = {}, const Words* words = nullptr)
        : merges_(byte_ids, merges, joins.size()),
          joins_(joins, process_hash_seed().multiplier),
          budget_(std::make_shared<CacheBudget>(cache_bytes)),
          scanner_(std::move(scanner)),
          joints_(scanner_),
          simd_level_(simd_level) {
        if (whole_words.empty()) return;
        const std::vector<uint8_t> is_self_made =
            self_made_tokens(merges_, merges, joins.size());
        if (words) known_ = KnownWords(*words, is_self_made);
        const std::atomic<bool> cancelled{false};
        WordMerger<Id> merger(merges_, simd_level, cancelled);
        std::vector<Id> ids;
        for (const auto& [word, id] : whole_words) {
            if (id < is_self_made.size() && is_self_made[id]) continue;
            ids.resize(word.size + OUTPUT_SLACK);
            const Id* const end = merger.merge(word.data, word.size, ids.data());
            const bool is_merged = end - ids.data() == 1 && ids[0] == Id(id);
            if (!is_merged) unmerged_.add(word, id);
        }
    }

    std::unique_ptr<EncodingWorker> make_worker(size_t cache_bytes) override {
        return std::make_unique<Worker>(*this, budget_of_worker(cache_bytes));
    }
    class Worker;
    // A worker that obeys a flag in place of its own.
    std::unique_ptr<Worker> make_worker(std::shared_ptr<CacheBudget> budget,
                                        const std::atomic<bool>& is_cancelled) const {
        return std::make_unique<Worker>(*this, std::move(budget), &is_cancelled);
    }
    // The budget of the cache of a worker; see Encoder::make_worker.
    std::shared_ptr<CacheBudget> budget_of_worker(size_t cache_bytes) const {
        return cache_bytes ? std::make_shared<CacheBudget>(cache_bytes) : budget_;
    }
    const JoinFilter& joins() const { return joins_; }

  private:
    using Cache = WordCache<Id>;

  public:
    class Worker final : public EncodingWorker {
      public:
        Worker(const TypedEncoder& encoder, std::shared_ptr<CacheBudget> budget,
               const std::atomic<bool>* is_cancelled = nullptr)
            : is_cancelled_(is_cancelled ? *is_cancelled : cancelled),
              merges_(encoder.merges_),
              joins_(encoder.joins_),
              unmerged_(encoder.unmerged_),
              known_(encoder.known_),
              scanner_(encoder.scanner_),
              joints_(encoder.joints_),
              simd_level_(encoder.simd_level_),
              merger_(encoder.merges_, encoder.simd_level_, is_cancelled_),
              group_merger_(encoder.merges_, encoder.simd_level_),
              dropout_merger_(encoder.merges_, encoder.simd_level_, is_cancelled_),
              spans_(encoder.scanner_, encoder.joints_),
              dropout_group_(encoder.merges_, encoder.simd_level_),
              cache_(std::move(budget)) {
            make_rest_key(cache_.seed(), NOTHING.word, nothing_key_);
        }

        size_t encode(const uint8_t* text, size_t size, const SpecialIds& special, void* output,
                      uint32_t separator, std::vector<int64_t>* ends) override {
            readable_end_ = text + size;
            num_gaps_ = 0;  // an exception in the previous text may have left gaps
            Id* const begin = static_cast<Id*>(output);
            Id* out = begin;
            if (!special.tokens.may_occur_in(text, size)) {
                return encode_ordinary(text, size, out) - begin;
            }
            spans_.clear();
            Occurrences occurrences(special.tokens, text, size);
            Occurrence found[OCCURRENCES_AT_ONCE];
            for (size_t start = 0; start < size;) {
                const size_t count = occurrences.fill(start, found, OCCURRENCES_AT_ONCE);
                for (size_t i = 0; i < count; ++i) {
                    const uint8_t* const span = text + start;
                    const size_t length = found[i].offset - start, token_length = found[i].length;
                    const uint32_t id = token_length ? special.ids[found[i].token] : NO_ID;
                    start = token_length ? found[i].offset + token_length : size;
                    const bool is_separator = ends && id == separator && id != NO_ID;
                    if (joints_.exist() && length <= JoinedSpans::MAX_SPAN &&
                        token_length <= JoinedSpans::MAX_TOKEN && !is_separator) {
                        if (!spans_.add(span, length, token_length, id, text + size)) {
                            out = encode_joined(out);
                            spans_.add(span, length, token_length, id, text + size);
                        }
                        continue;
                    }
                    out = encode_joined(out);
                    out = encode_ordinary(span, length, out);
                    if (id != NO_ID) *out++ = Id(id);
                    if (is_separator) ends->push_back(out - begin);
                }
            }
            return encode_joined(out) - begin;
        }

        size_t encode_dropped(const uint8_t* text, size_t size, const SpecialIds& special,
                              const Dropout& dropout, uint64_t offset, void* output) override {
            readable_end_ = text + size;
            num_gaps_ = 0;
            return encode_around_special(
                text, size, special, static_cast<Id*>(output), 0, nullptr,
                [&](const uint8_t* part, size_t length, Id* out) {
                    return drop_ordinary(part, length, dropout, offset + (part - text), out);
                });
        }

        size_t drop_word(const uint8_t* word, size_t length, const Dropout& dropout,
                         uint64_t offset, void* output) override {
            if (!length) return 0;
            readable_end_ = word + length;
            num_gaps_ = 0;
            Id* const out = static_cast<Id*>(output);
            return drop(word, length, dropout, offset, out) - out;
        }

        size_t encode_short(const uint8_t* text, size_t size, const SpecialIds& special,
                            void* output) override {
            if (special.tokens.may_occur_in(text, size)) {
                return encode(text, size, special, output, NO_ID, nullptr);
            }
            readable_end_ = text + size + WORD_PADDING;
            num_gaps_ = 0;
            uint32_t ends[BATCH_CAPACITY];
            const size_t num_words = scanner_.fill_short(text, size, ends);
            Id* const begin = static_cast<Id*>(output);
            return fill_gaps(encode_batch<WORD>(text, ends, num_words, begin)) - begin;
        }

        void encode_bytes(const uint8_t* bytes, size_t size, void* output) override {
            stop_if_cancelled();
            Id* const out = static_cast<Id*>(output);
            for (size_t i = 0; i < size; ++i) out[i] = merges_.byte_id(bytes[i]);
        }

        size_t encode_word(const uint8_t* word, size_t length, const uint8_t* readable_end,
                           void* output) override {
            if (!length) return 0;
            readable_end_ = readable_end;
            num_gaps_ = 0;
            Id* const out = static_cast<Id*>(output);
            return encode_alone(word, length, out) - out;
        }

        // Call this before `encode_parts`. The bytes up to `readable_end` can be read.
        void start(const uint8_t* readable_end) {
            readable_end_ = readable_end;
            num_gaps_ = 0;
        }

        using Rest = JoinedSpans::Rest;

        // Encode the parts of lines that LineCutter has found. Parts from `rest.start` to
        // `rest.end` stand for an added token; these places, which ascend, are relative to
        // `origin` bytes before `first`. Parts before `resume` stand for nothing: their token has
        // been written. Both are moved past the parts. Returns the end of the ids.
        Id* encode_parts(const uint8_t* first, uint32_t origin, const uint32_t* ends, size_t count,
                         const Rest*& rest, uint32_t& resume, Id* out) {
            stop_if_cancelled();
            if (rest->start >= origin + ends[count - 1] && resume <= origin) {
                return fill_gaps(encode_batch<PART>(first, ends, count, out));
            }
            return fill_gaps(encode_groups<PART>(
                first, ends, count, out,
                [&](uint32_t start, const uint32_t* group_ends, size_t group, WordKey* keys) {
                    insert_rests(origin, start, group_ends, group, rest, resume, keys);
                },
                [&](const WordKey& key, uint32_t part, size_t length, Id* at) {
                    return is_rest(key) ? encode_rest(key, rest_of(key), at)
                                        : look_up<PART>(key, first + part, length, at);
                }));
        }

      private:
        using DropoutGroup = WordGroupMerger<Id, KeptMerges>;

        // What a stretch of bytes is: a whole pre-token, a part of a line, or a segment of either.
        enum Piece { WORD, PART, SEGMENT };

        // Space in the output for the ids of a new word.
        struct Gap {
            WordKey key;
            const uint8_t* word;
            size_t length;
            Id* begin;
        };

        // Encode text without special tokens, with dropout.
        Id* drop_ordinary(const uint8_t* text, size_t size, const Dropout& dropout, uint64_t offset,
                          Id* out) {
            const bool looks_up =
                !dropout.all && dropout.shares[1] >> 63 == 1 && unmerged_.empty();
            scanner_.scan(
                text, size,
                [&](const uint8_t* first, const uint32_t* ends, size_t count) {
                    stop_if_cancelled();
                    const uint64_t start = offset + (first - text);
                    out = looks_up ? drop_batch<true>(first, ends, count, dropout, start, out)
                                   : drop_batch<false>(first, ends, count, dropout, start, out);
                },
                [&](const uint8_t* word, size_t length) {
                    out = drop(word, length, dropout, offset + (word - text), out);
                });
            return out;
        }

        // Encode the words of a batch with dropout. If no merge of a word is left out, its ids are
        // the usual ones, which are cached, and it has as many steps as merges. LOOKS_UP: whether
        // this is likely.
        template <bool LOOKS_UP>
        CS336_NOINLINE Id* drop_batch(const uint8_t* first, const uint32_t* ends, size_t num_words,
                                      const Dropout& dropout, uint64_t offset, Id* out) {
            constexpr size_t MAX_LOOKED_UP = 32;  // longer words rarely keep all merges
            static_assert(MAX_LOOKED_UP <= MAX_GAP);
            WordKey keys[GROUP];
            uint32_t start = 0;
            clear_dropped();  // an exception in the previous text may have left words
            for (size_t i = 0; i < num_words; start = ends[i++]) {
                if (LOOKS_UP && i % GROUP == 0) {
                    make_keys<WORD>(first, start, ends + i, std::min(GROUP, num_words - i), keys);
                }
                const uint8_t* const word = first + start;
                const size_t length = ends[i] - start;
                if (!LOOKS_UP || length > MAX_LOOKED_UP) {
                    out = drop(word, length, dropout, offset + start, out);
                    continue;
                }
                if (length == 1) {
                    *out++ = merges_.byte_id(*word);
                    continue;
                }
                const WordKey& key = keys[i % GROUP];
                const typename Cache::Entry& entry = cache_.view().at(key);
                Id* end;
                if (entry.is_near(key)) {
                    std::memcpy(out, entry.lanes, 16);
                    end = out + entry.count();
                } else {
                    end = fill_gaps(look_up<WORD>(key, word, length, out));
                }
                KeptMerges kept(dropout, offset + start);
                const size_t num_merges = length - size_t(end - out);
                if (kept.keep_first(num_merges)) {
                    out = end;
                } else if (length > DropoutGroup::MAX_LENGTH || !merger_.takes_groups()) {
                    out = dropout_merger_.merge(word, length, kept, out);
                } else {
                    if (num_dropped_ == DropoutGroup::CAPACITY) out = merge_dropped(out);
                    kept.start();
                    dropout_group_.add(word, length, kept);
                    dropped_[num_dropped_++] = {key, word, length, out};
                    out += length;
                }
            }
            return LOOKS_UP ? merge_dropped(out) : out;
        }

        // Merge the words of `dropped_` as a group; see `fill_some_gaps`.
        Id* merge_dropped(Id* end) {
            if (!num_dropped_) return end;
            dropout_group_.merge();
            end = close_gaps(dropped_, num_dropped_, end, [this](size_t i, Id* out) {
                return dropout_group_.ids(i, out);
            });
            clear_dropped();
            return end;
        }

        void clear_dropped() {
            dropout_group_.clear();
            num_dropped_ = 0;
        }

        // Encode a word with dropout.
        Id* drop(const uint8_t* word, size_t length, const Dropout& dropout, uint64_t offset,
                 Id* out) {
            if (length == 1 || dropout.all) {
                for (size_t i = 0; i < length; ++i) *out++ = merges_.byte_id(word[i]);
                return out;
            }
            return dropout_merger_.merge(word, length, KeptMerges(dropout, offset), out);
        }

        // Encode text without special tokens.
        Id* encode_ordinary(const uint8_t* text, size_t size, Id* out) {
            scanner_.scan(
                text, size,
                [&](const uint8_t* first, const uint32_t* ends, size_t count) {
                    out = encode_words(first, ends, count, out);
                },
                [&](const uint8_t* word, size_t length) { out = encode_alone(word, length, out); });
            return out;
        }

        // This function is not part of `scan`, because the loop needs all registers.
        CS336_NOINLINE Id* encode_words(const uint8_t* first, const uint32_t* ends, size_t count,
                                        Id* out) {
            stop_if_cancelled();
            return fill_gaps(encode_batch<WORD>(first, ends, count, out));
        }

        static constexpr size_t GROUP = 128;  // large enough to hide the memory latency

        // Encode the joined spans and the added tokens after them, and remove them.
        Id* encode_joined(Id* out) {
            if (spans_.empty()) return out;
            const uint8_t* const end_of_text = readable_end_;
            readable_end_ = spans_.readable_end();
            const Rest* rest = spans_.begin();
            uint32_t resume = 0;
            scanner_.scan(
                spans_.text(), spans_.size(),
                [&](const uint8_t* first, const uint32_t* ends, size_t count) {
                    stop_if_cancelled();
                    const uint32_t origin = uint32_t(first - spans_.text());
                    out = fill_gaps(
                        encode_between(first, origin, ends, count, rest, resume, out));
                },
                [](const uint8_t*, size_t) {});
            for (; rest != spans_.end(); rest += 1 + rest->num_chained) {
                WordKey key;
                make_rest_key(cache_.seed(), rest->word, key);
                out = encode_rests(key, rest->start, out);
            }
            readable_end_ = end_of_text;
            spans_.clear();
            return out;
        }

        static constexpr Rest NOTHING = {{0, uint64_t{WHOLE_KEY} << 56 | NO_ID}, 0, 0, 0, NO_ID, 0,
                                         nullptr};
        // An added token with this key, or nothing.
        static Rest rest_of(const WordKey& key) {
            return {{key.low, key.high}, 0, 0, 0, uint32_t(key.high), 0, nullptr};
        }

        static CS336_INLINE void make_rest_key(const HashSeed& seed, const WordBytes& word,
                                               WordKey& key) {
            make_short_key(seed, reinterpret_cast<const uint8_t*>(&word), WHOLE_KEY, key);
        }

        // Encode a batch of words of the joined spans, which starts at `origin`. A word that starts
        // where `rest` is in the text stands for it and the rests after it. The other words up to
        // its end, `resume`, stand for nothing.
        CS336_NOINLINE Id* encode_between(const uint8_t* first, uint32_t origin,
                                          const uint32_t* ends, size_t num_words, const Rest*& rest,
                                          uint32_t& resume, Id* out) {
            return encode_groups<WORD>(
                first, ends, num_words, out,
                [&](uint32_t start, const uint32_t* group_ends, size_t group, WordKey* keys) {
                    insert_rests(origin, start, group_ends, group, rest, resume, keys);
                },
                [&](const WordKey& key, uint32_t word, size_t length, Id* at) {
                    return is_rest(key) ? encode_rests(key, origin + word, at)
                                        : look_up<WORD>(key, first + word, length, at);
                });
        }

        // Replace the keys of words that stand for rests or for nothing.
        CS336_INLINE void insert_rests(uint32_t origin, uint32_t start, const uint32_t* ends,
                                       size_t num_words, const Rest*& next_rest,
                                       uint32_t& resume_at, WordKey* keys) const {
            const HashSeed seed = cache_.seed();  // a local copy stays in registers
            const Rest* rest = next_rest;
            uint32_t resume = resume_at;
            const uint32_t stop = origin + ends[num_words - 1];
            for (size_t i = 0;;) {
                while (i < num_words && origin + (i ? ends[i - 1] : start) < resume) {
                    keys[i++] = nothing_key_;
                }
                if (rest->start >= stop) break;
                i = first_after(ends, i, num_words, rest->start - origin);
                make_rest_key(seed, rest->word, keys[i++]);
                resume = rest->end;
                rest += 1 + rest->num_chained;
            }
            next_rest = rest;
            resume_at = resume;
        }

        // The index of the first of the ascending `ends`, from `i` on, that is after `offset`.
        static CS336_INLINE size_t first_after(const uint32_t* ends, size_t i, size_t size,
                                               uint32_t offset) {
            // Without a branch that depends on the number of words, which is hard to predict.
            constexpr size_t AT_ONCE = 16;
            while (size - i >= AT_ONCE) {
                const size_t from = i;
                for (size_t step = AT_ONCE / 2; step; step /= 2) {
                    i += ends[i + step - 1] <= offset ? step : 0;
                }
                if (i < from + AT_ONCE - 1 || ends[i] > offset) return i;
                ++i;
            }
            while (ends[i] <= offset) ++i;
            return i;
        }

        // Encode the rests at `start`, or nothing, whose key is not in its first slot of the cache.
        CS336_NOINLINE Id* encode_rests(const WordKey& key, uint32_t start, Id* out) {
            if (key.high == nothing_key_.high) return encode_rest(key, NOTHING, out);
            const Rest* const rest = &spans_.at(start);
            if (!rest->num_chained) return encode_rest(key, *rest, out);
            if (const typename Cache::Entry* entry = cache_.find(key, rest->tail)) {
                return Cache::copy_ids(*entry, key, out);
            }
            out = fill_gaps(out);
            Id* end = out;
            for (size_t i = 0; i <= rest->num_chained; ++i) {
                WordKey one;
                make_rest_key(cache_.seed(),
                              rest_word(rest[i].tail, rest[i].tail_length, rest[i].id), one);
                end = encode_rest(one, rest[i], end);
            }
            if (key.high != NEVER_STORED.high) {
                cache_.insert(key, rest->tail, out, size_t(end - out));
            }
            return end;
        }

        // Encode the tail of a text, as a text of its own, and the added token after it.
        CS336_NOINLINE Id* encode_rest(const WordKey& key, const Rest& rest, Id* out) {
            if (const typename Cache::Entry* entry = cache_.find(key, rest.tail)) {
                return Cache::copy_ids(*entry, key, out);
            }
            out = fill_gaps(out);
            Id* end = out;
            const uint8_t* const readable_end = readable_end_;
            readable_end_ = rest.tail + rest.tail_length;
            ScanState state(scanner_.num_states());
            for (size_t start = 0; start < rest.tail_length;) {
                const size_t stop = scanner_.next(rest.tail, rest.tail_length, start, state);
                end = encode_alone(rest.tail + start, stop - start, end);
                start = stop;
            }
            readable_end_ = readable_end;
            if (rest.id != NO_ID) *end++ = Id(rest.id);
            cache_.insert(key, rest.tail, out, size_t(end - out));
            return end;
        }

        // Longer words are cut into parts if they contain a space.
        static constexpr size_t MAX_UNCUT = 32;

        Id* encode_alone(const uint8_t* word, size_t length, Id* out) {
            const WordKey key = cache_.key(word, length, word + length);
            return fill_gaps(look_up<WORD>(key, word, length, out));
        }

        static constexpr size_t OCCURRENCES_AT_ONCE = 64;

        // Encode the words [first, first + ends[0]), [first + ends[0], first + ends[1]) and so on,
        // or the parts or segments of a word.
        template <Piece PIECE>
        CS336_INLINE Id* encode_batch(const uint8_t* first, const uint32_t* ends, size_t num_words,
                                      Id* out) {
            return encode_groups<PIECE>(
                first, ends, num_words, out, [](uint32_t, const uint32_t*, size_t, WordKey*) {},
                [&](const WordKey& key, uint32_t word, size_t length, Id* at) {
                    return look_up<PIECE>(key, first + word, length, at);
                });
        }

        // Encode a batch of words in groups. `change` may replace the keys of a group. `look`
        // encodes a word whose ids are not in its first slot of the cache.
        template <Piece PIECE, class Change, class Look>
        CS336_INLINE Id* encode_groups(const uint8_t* first, const uint32_t* ends, size_t num_words,
                                       Id* out, const Change& change, const Look& look) {
            WordKey keys[GROUP];
            uint32_t start = 0;
            for (size_t done = 0; done < num_words; done += GROUP) {
                const size_t group = std::min(GROUP, num_words - done);
                const uint32_t* const group_ends = ends + done;
                const uint32_t group_start = start;
                start = make_keys<PIECE>(first, start, group_ends, group, keys);
                change(group_start, group_ends, group, keys);
                typename Cache::View view = cache_.view();
                for (size_t i = 0; i < group; ++i) {
                    // The common case is a short word with few ids in its first slot.
                    const typename Cache::Entry& entry = view.at(keys[i]);
                    if (entry.is_near(keys[i])) {
                        std::memcpy(out, entry.lanes, 16);
                        out += entry.count();
                        continue;
                    }
                    const uint32_t word = i ? group_ends[i - 1] : group_start;
                    out = look(keys[i], word, group_ends[i] - word, out);
                    view = cache_.view();
                }
            }
            return out;
        }

        // Compute the keys of the words [first + start, first + ends[0]) and so on, and prefetch
        // their entries. Returns the end of the last word.
        template <Piece PIECE>
        CS336_INLINE uint32_t make_keys(const uint8_t* first, uint32_t start, const uint32_t* ends,
                                        size_t num_words, WordKey* keys) const {
            if (readable_end_ - first >= ptrdiff_t(ends[num_words - 1] + WORD_PADDING)) {
                const typename Cache::View view = cache_.view();
                const bool large = PIECE == PART || cache_.is_large();
                const HashSeed seed = cache_.seed();  // a local copy stays in registers
                for (size_t i = 0; i < num_words; ++i) {
                    const uint32_t end = ends[i];
                    const uint32_t length = end - start;
                    if (length <= MAX_SHORT_WORD) {
                        make_short_key(seed, first + start, length, keys[i]);
                    } else {
                        keys[i] = cache_.rare_key(first + start, length);
                    }
                    if (large) CS336_PREFETCH(&view.at(keys[i]));
                    start = end;
                }
            } else {
                for (size_t i = 0; i < num_words; ++i) {
                    const uint32_t end = ends[i];
                    keys[i] = cache_.key(first + start, end - start, readable_end_);
                    start = end;
                }
            }
            return start;
        }

        // Encode a word, or a part or segment of a word, that is not in its first slot of the
        // cache. For a new word, this may leave a gap of `length` ids; see `fill_gaps`.
        template <Piece PIECE>
        CS336_NOINLINE Id* look_up(const WordKey& key, const uint8_t* word, size_t length,
                                   Id* out) {
            if (const typename Cache::Entry* entry = cache_.find(key, word)) {
                return Cache::copy_ids(*entry, key, out);
            }
            // An unmerged word has different ids than a part or segment with the same bytes, so
            // neither is cached.
            if (const uint32_t* const id = unmerged_.find(key.hash, word, length)) {
                if (PIECE != WORD) return merger_.merge(word, length, out);
                *out = Id(*id);
                return out + 1;
            }
            if (PIECE == SEGMENT) return merge_new(key, word, length, out);
            // Short words that end with an ASCII character are rarely cut into segments, so skip
            // the attempt.
            if (length <= MAX_SHORT_WORD && word[length - 1] < 0x80) {
                if (!merger_.takes_groups()) return merge_new(key, word, length, out);
                if (num_gaps_ == WordGroupMerger<Id>::CAPACITY) out = fill_gaps(out);
                gaps_[num_gaps_++] = {key, word, length, out};
                known_.prefetch(key);
                return out + length;
            }
            if (PIECE == WORD && length > MAX_UNCUT && std::memchr(word, ' ', length)) {
                return encode_new_line(key, word, length, out);
            }
            return encode_new_word(key, word, length, out);
        }

        // Merge the new words of all gaps as a group, and shift the ids that follow each gap.
        // Returns the end of the ids.
        CS336_INLINE Id* fill_gaps(Id* end) { return num_gaps_ ? fill_some_gaps(end) : end; }

        CS336_NOINLINE Id* fill_some_gaps(Id* end) {
            uint32_t known[WordGroupMerger<Id>::CAPACITY];
            size_t num_unknown = 0;
            for (size_t i = 0; i < num_gaps_; ++i) {
                known[i] = known_.find(gaps_[i].key);
                num_unknown += known[i] == NO_ID;
            }
            const bool is_group = num_unknown > 1;
            if (is_group) {
                group_merger_.clear();
                for (size_t i = 0; i < num_gaps_; ++i) {
                    if (known[i] == NO_ID) group_merger_.add(gaps_[i].word, gaps_[i].length);
                }
                group_merger_.merge();
            }
            size_t merged = 0;
            end = close_gaps(gaps_, num_gaps_, end, [&](size_t i, Id* ids) {
                const Gap& gap = gaps_[i];
                Id* out;
                if (known[i] != NO_ID) {
                    *ids = Id(known[i]);
                    out = ids + 1;
                } else {
                    out = is_group ? group_merger_.ids(merged++, ids)
                                   : merger_.merge(gap.word, gap.length, ids);
                }
                if (!cache_.find(gap.key, gap.word)) {  // a word may occur twice in the group
                    cache_.insert(gap.key, gap.word, ids, out - ids);
                }
                return out;
            });
            num_gaps_ = 0;
            return end;
        }

        // Encode a new word by its segments, which are mostly in the cache.
        Id* encode_new_word(const WordKey& key, const uint8_t* word, size_t length, Id* out) {
            cache_.prefetch_seen(key);
            SegmentCutter cutter(joins_, word, length);
            const uint8_t* start;
            uint32_t ends[SegmentCutter::CAPACITY];
            Id* end = out;
            while (const size_t count = cutter.fill(start, ends)) {
                if (count == 1 && ends[0] == length) return merge_new(key, word, length, out);
                stop_if_cancelled();
                if (cache_.is_off()) {
                    for (size_t i = 0, first = 0; i < count; first = ends[i++]) {
                        end = merger_.merge(start + first, ends[i] - first, end);
                    }
                } else {
                    end = encode_batch<SEGMENT>(start, ends, count, end);
                }
            }
            if (length <= Cache::MAX_WORD && cache_.was_seen(key)) {
                cache_.insert(key, word, out, end - out);
            }
            return end;
        }

        // Encode a new word that consists of several words, by its parts, which are mostly in the
        // cache.
        CS336_NOINLINE Id* encode_new_line(const WordKey& key, const uint8_t* word, size_t length,
                                           Id* out) {
            cache_.prefetch_seen(key);
            out = fill_gaps(out);
            LineCutter cutter(joins_, simd_level_, word, length);
            const uint8_t* start;
            uint32_t ends[LineCutter::CAPACITY];
            Id* end = out;
            while (const size_t count = cutter.fill(start, ends)) {
                stop_if_cancelled();
                end = fill_gaps(encode_batch<PART>(start, ends, count, end));
            }
            if (length <= Cache::MAX_WORD && cache_.was_seen(key)) {
                cache_.insert(key, word, out, end - out);
            }
            return end;
        }

        // Merge a new word or segment without cutting it, and insert it into the cache.
        Id* merge_new(const WordKey& key, const uint8_t* word, size_t length, Id* out) {
            Id* const end = merger_.merge(word, length, out);
            cache_.insert(key, word, out, end - out);
            return end;
        }

        void stop_if_cancelled() const {
            if (is_cancelled_.load(std::memory_order_relaxed)) throw Cancelled();
        }

        const std::atomic<bool>& is_cancelled_;
        const MergeTable<Id>& merges_;
        const JoinFilter& joins_;
        const UnmergedWords& unmerged_;
        const KnownWords& known_;
        const Scanner scanner_;
        const Joints& joints_;
        const SimdLevel simd_level_;
        WordMerger<Id> merger_;
        WordGroupMerger<Id> group_merger_;
        DropoutMerger<Id> dropout_merger_;
        JoinedSpans spans_;
        WordKey nothing_key_;
        DropoutGroup dropout_group_;
        Gap dropped_[DropoutGroup::CAPACITY];  // words with merges that are left out
        size_t num_dropped_ = 0;
        Gap gaps_[WordGroupMerger<Id>::CAPACITY];
        size_t num_gaps_ = 0;
        Cache cache_;
        const uint8_t* readable_end_ = nullptr;
    };

  private:
    const MergeTable<Id> merges_;
    const JoinFilter joins_;
    UnmergedWords unmerged_;  // the whole words whose tokens the merges do not make
    KnownWords known_;
    const std::shared_ptr<CacheBudget> budget_;
    const Scanner scanner_;
    const Joints joints_;
    const SimdLevel simd_level_;
};

}  // namespace cs336
