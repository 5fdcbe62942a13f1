// SuperwordEncoder: encodes text with a vocabulary whose last merges join words.
//
// A pre-token is a line or another long stretch of text. First, its words are encoded with the
// merges within words, mostly by looking them up. Then, the resulting symbols are cut where no
// merge joins two of them, and the few symbols between two cuts are merged. Both is done for many
// pre-tokens at once, because code and poems have short lines. The ids of lines that recur, and of
// pieces of long ones, are in a cache.

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
          all_joins_(joins, process_hash_seed().multiplier),
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
              joiner_(superwords_, merges_, merger_, encoder.simd_level_),
              lines_(budget),
              words_(encoder.words_.make_worker(budget, cancelled)) {}

        size_t encode(const uint8_t* text, size_t size, const SpecialIds& special, void* output,
                      uint32_t separator, std::vector<int64_t>* ends) override {
            start(text + size);
            Id* const begin = static_cast<Id*>(output);
            Id* out = begin;
            if (!special.tokens.may_occur_in(text, size)) {
                return encode_ordinary(text, size, out) - begin;
            }
            Occurrences occurrences(special.tokens, text, size);
            for (size_t start = 0; start < size;) {
                const Occurrence found = occurrences.next(start);
                const uint8_t* const span = text + start;
                const size_t length = found.offset - start;
                const uint32_t id = found.length ? special.ids[found.token] : NO_ID;
                start = found.length ? found.offset + found.length : size;
                const bool is_separator = ends && id == separator && id != NO_ID;
                if (id != NO_ID && !is_separator && !superwords_.has(id) &&
                    length + found.length <= MAX_SPAN) {
                    out = add_span(span, length, found.length, id, out);
                    continue;
                }
                out = encode_ordinary(span, length, encode_spans(out));
                if (id != NO_ID) *out++ = Id(id);
                if (is_separator) ends->push_back(out - begin);
            }
            return encode_spans(out) - begin;
        }

        size_t encode_short(const uint8_t* text, size_t size, const SpecialIds& special,
                            void* output) override {
            if (special.tokens.may_occur_in(text, size)) {
                return encode(text, size, special, output, NO_ID, nullptr);
            }
            start(text + size + WORD_PADDING);
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
            start(readable_end);
            Id* const begin = static_cast<Id*>(output);
            Id* const end = encode_alone(word, length, begin);
            return joiner_.fill_gaps(end) - begin;
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

        using Cache = WordCache<Id>;
        using Rest = typename TypedEncoder<Id>::Worker::Rest;

        // Begin with a text. An exception in the previous one may have left a part of it.
        void start(const uint8_t* readable_end) {
            words_->start(readable_end);
            joiner_.clear();
            forget_spans();
        }

        // Encode text without added tokens.
        Id* encode_ordinary(const uint8_t* text, size_t size, Id* out) {
            scanner_.scan(
                text, size,
                [&](const uint8_t* first, const uint32_t* word_ends, size_t count) {
                    out = encode_batch(first, word_ends, count, out);
                },
                [&](const uint8_t* word, size_t length) {
                    out = joiner_.fill_gaps(encode_alone(word, length, out));
                });
            return out;
        }

        // Add a text, which follows the last one, and the added token after it. Short texts are
        // encoded together with these tokens, as pre-tokens of one batch. No merge of superwords
        // has the id of such a token, so they are joined with nothing.
        Id* add_span(const uint8_t* text, size_t length, size_t token_length, uint32_t id,
                     Id* out) {
            if (num_spans_ == MAX_SPANS || num_span_ends_ + length >= BATCH_CAPACITY) {
                out = encode_spans(out);
            }
            if (!num_spans_) first_span_ = text;
            scanner_.scan(
                text, length,
                [&](const uint8_t* first, const uint32_t* ends, size_t count) {
                    const uint32_t moved = uint32_t(first - first_span_);
                    for (size_t i = 0; i < count; ++i) {
                        span_ends_[num_span_ends_++] = moved + ends[i];
                    }
                },
                [](const uint8_t*, size_t) {});
            const uint32_t token = uint32_t(text + length - first_span_);
            const uint32_t end = token + uint32_t(token_length);
            span_ends_[num_span_ends_++] = end;
            rests_[num_spans_++] = {rest_word(nullptr, 0, id), token, end, 0, id, 0, nullptr};
            return out;
        }

        Id* encode_spans(Id* out) {
            if (!num_spans_) return out;
            rests_[num_spans_].start = NEVER;
            out = encode_batch(first_span_, span_ends_, num_span_ends_, out);
            forget_spans();
            return out;
        }

        void forget_spans() {
            num_spans_ = num_span_ends_ = 0;
            rests_[0].start = NEVER;
            next_rest_ = rests_;
            resume_ = 0;
        }

        // What is looked up at once: pre-tokens that follow each other, for example all those of a
        // line, or a part of a pre-token.
        struct Piece {
            WordKey key;  // this and `text`, its bytes, are only set if it is looked up
            const uint8_t* text;
            uint32_t length;  // of `text`
            uint32_t start, end;
            uint32_t first_end, num_inner_ends;  // the ends of pre-tokens before its end
            uint32_t id;                         // of an added token; NO_ID for text
            bool starts_word, ends_word, is_looked_up;
        };

        // The bytes of a piece of several pre-tokens, and where they end: the same bytes can be
        // other pre-tokens elsewhere.
        using PieceText = uint8_t[Cache::MAX_WORD + WORD_PADDING];

        // Encode the pre-tokens of a batch; see Scanner::scan.
        Id* encode_batch(const uint8_t* first, const uint32_t* ends, size_t count, Id* out) {
            if (!count || lines_.is_off()) {
                return joiner_.fill_gaps(encode_lines(first, 0, ends, count, out));
            }
            if (seen_.empty()) seen_.resize(size_t{1} << SEEN_BITS);
            Piece pieces[GROUP];
            PieceText texts[GROUP];
            // The ends of the pre-tokens from `new_start` on that are not in the cache. The last
            // one may go on, that is, its end may be the end of a piece.
            uint32_t new_ends[BATCH_CAPACITY];
            uint32_t new_start = 0;
            size_t num_new = 0, surplus = 0;  // surplus: bytes that are new, minus those that recur
            bool goes_on = false;
            const auto encode_new = [&] {
                out = encode_lines(first, new_start, new_ends, num_new, out);
                num_new = surplus = 0;
                goes_on = false;
            };
            const Rest* rest = next_rest_;
            for (size_t word = 0, start = 0; word < count;) {
                const size_t num_pieces =
                    find_pieces(first, ends, count, word, start, rest, pieces, texts);
                for (size_t i = 0; i < num_pieces; ++i) {
                    const Piece& piece = pieces[i];
                    if (piece.id != NO_ID && !num_new) {
                        *out++ = Id(piece.id);
                        new_start = piece.end;
                        continue;
                    }
                    const size_t length = piece.end - piece.start;
                    const bool is_short = length <= MAX_SHORT_WORD;
                    // It costs least to encode a short piece together with the new one before it.
                    const bool is_looked_up = piece.is_looked_up && !(is_short && num_new);
                    const typename Cache::Entry* const entry =
                        is_looked_up ? lines_.find(piece.key, piece.text) : nullptr;
                    const bool recurs = entry || (is_looked_up && was_seen(piece.key));
                    if (piece.starts_word && is_looked_up && !is_short) recurs_ = recurs;
                    // New text is encoded fastest in long stretches, because words and symbols are
                    // merged in groups. So short pieces that recur do not end a stretch, unless
                    // more of it recurs than is new.
                    const size_t most = entry ? MOST_FOUND : MOST_SEEN;
                    if (!recurs || length <= std::min(most, surplus)) {
                        surplus = recurs ? surplus - length : surplus + length;
                        num_new -= goes_on;
                        num_new += copy_ends(piece, ends, new_ends + num_new);
                        goes_on = !piece.ends_word;
                        continue;
                    }
                    encode_new();
                    if (entry) {
                        out = Cache::copy_ids(*entry, piece.key, out);
                    } else {
                        out = joiner_.fill_gaps(out);
                        const Id* const ids = out;
                        const size_t num_ends = copy_ends(piece, ends, new_ends);
                        out = encode_lines(first, piece.start, new_ends, num_ends, out);
                        out = joiner_.fill_gaps(out);
                        lines_.insert(piece.key, piece.text, ids, size_t(out - ids));
                    }
                    new_start = piece.end;
                }
            }
            encode_new();
            return joiner_.fill_gaps(out);
        }

        // Write the ends of the pre-tokens of a piece, of which the last may go on. Returns their
        // number.
        static CS336_INLINE size_t copy_ends(const Piece& piece, const uint32_t* ends,
                                             uint32_t* out) {
            for (size_t i = 0; i < piece.num_inner_ends; ++i) out[i] = ends[piece.first_end + i];
            out[piece.num_inner_ends] = piece.end;
            return piece.num_inner_ends + 1;
        }

        // Find the next pieces, at most GROUP, and prefetch what looking them up will read. The
        // next one starts `start` bytes after `first`, in the pre-token with the index `word`. If
        // the start of the last pre-token was new, only the starts of pre-tokens are looked up.
        // `rest` is the next added token.
        size_t find_pieces(const uint8_t* first, const uint32_t* ends, size_t count, size_t& word,
                           size_t& start, const Rest*& rest, Piece* pieces, PieceText* texts) {
            size_t num_pieces = 0;
            for (; num_pieces < GROUP && word < count; ++num_pieces) {
                Piece& piece = pieces[num_pieces];
                const uint8_t* const text = first + start;
                const uint8_t* const word_end = first + ends[word];
                piece.text = text;
                piece.start = uint32_t(start);
                piece.first_end = uint32_t(word);
                piece.starts_word = start == (word ? ends[word - 1] : 0);
                piece.num_inner_ends = 0;
                piece.id = NO_ID;
                if (start == rest->start) {
                    piece.id = rest++->id;
                    piece.end = ends[word++];
                    piece.ends_word = true;
                    piece.is_looked_up = false;
                    start = piece.end;
                    continue;
                }
                const uint8_t* end = word_end;
                if (piece.starts_word) {
                    word = last_of_piece(first, start, rest->start, ends, word, count);
                    end = first + ends[word];
                }
                piece.num_inner_ends = uint32_t(word - piece.first_end);
                if (!piece.num_inner_ends && (piece.starts_word || recurs_)) {
                    end = end_of_piece(text, word_end);
                }
                piece.end = uint32_t(end - first);
                piece.ends_word = piece.num_inner_ends || end == word_end;
                size_t length = size_t(end - text);
                if (piece.num_inner_ends) {
                    uint8_t* const copy = texts[num_pieces];
                    if (first + ends[count - 1] - text >= ptrdiff_t(Cache::MAX_WORD)) {
                        std::memcpy(copy, text, Cache::MAX_WORD);  // a constant size is faster
                    } else {
                        std::memcpy(copy, text, length);
                    }
                    copy[length++] = NO_TEXT;
                    for (size_t i = 0; i < piece.num_inner_ends; ++i) {
                        copy[length++] = uint8_t(ends[piece.first_end + i] - start);
                    }
                    piece.text = copy;
                }
                piece.length = uint32_t(length);
                piece.is_looked_up =
                    length <= Cache::MAX_WORD && (recurs_ || length > MAX_SHORT_WORD);
                word += piece.ends_word;
                start = piece.end;
            }
            // A loop of its own, because reading bytes that were just written one by one has to
            // wait.
            for (size_t i = 0; i < num_pieces; ++i) {
                Piece& piece = pieces[i];
                if (!piece.is_looked_up) continue;
                const uint8_t* const readable_end =
                    piece.num_inner_ends ? texts[i] + sizeof(PieceText) : first + ends[count - 1];
                piece.key = lines_.key(piece.text, piece.length, readable_end);
                CS336_PREFETCH(&lines_.view().at(piece.key));
                CS336_PREFETCH(&seen_of(piece.key));
            }
            for (size_t i = 0; i < num_pieces; ++i) {
                if (pieces[i].is_looked_up) lines_.prefetch_record(pieces[i].key);
            }
            return num_pieces;
        }

        // The last pre-token of the piece that starts with `word`, at `start`. The piece ends at
        // `limit` at the latest, and after a line feed if there is room, because lines recur.
        static CS336_INLINE size_t last_of_piece(const uint8_t* first, size_t start, size_t limit,
                                                 const uint32_t* ends, size_t word, size_t count) {
            size_t last = word;
            while (last + 1 < count && ends[last] < limit) {
                const size_t num_inner_ends = last + 1 - word;
                if (ends[last + 1] - start + 1 + num_inner_ends > Cache::MAX_WORD) break;
                ++last;
                if (first[ends[last] - 1] == '\n') break;
            }
            return last;
        }

        // The end of the piece of a line that starts at `start`: if possible, the first space after
        // LEAST_IN_PIECE bytes where no merge joins the bytes on both sides.
        const uint8_t* end_of_piece(const uint8_t* start, const uint8_t* end) const {
            if (end - start <= ptrdiff_t(Cache::MAX_WORD)) return end;
            constexpr ptrdiff_t WINDOW_SIZE = sizeof(JoinFilter::Window);
            for (const uint8_t* place = start + LEAST_IN_PIECE;; ++place) {
                place = static_cast<const uint8_t*>(std::memchr(place, ' ', size_t(end - place)));
                if (!place || end - place < WINDOW_SIZE) return end;
                JoinFilter::Window window;
                std::memcpy(&window, place - 3, WINDOW_SIZE);
                if (!encoder_.all_joins_.may_join(window)) return place;
            }
        }

        // Whether a piece has probably occurred before. WordCache::was_seen is always true while
        // the table is small, so that pieces would be encoded one by one.
        bool was_seen(const WordKey& key) {
            const uint8_t next_bits = uint8_t(key.hash >> (56 - SEEN_BITS)) | 1;
            return std::exchange(seen_of(key), next_bits) == next_bits;
        }
        uint8_t& seen_of(const WordKey& key) { return seen_[key.hash >> (64 - SEEN_BITS)]; }

        // Encode pre-tokens that follow each other from `start` on. They are encoded together,
        // except where a merge joins the end of one with the start of the next. The ids may have
        // gaps; see SymbolJoiner.
        Id* encode_lines(const uint8_t* first, uint32_t start, const uint32_t* ends, size_t count,
                         Id* out) {
            for (size_t i = 0, last = 0; i < count; i = last + 1) {
                for (last = i; last + 1 < count; ++last) {
                    if (may_join(first, first + ends[last], first + ends[count - 1])) break;
                }
                while (next_rest_->start < start) ++next_rest_;
                out = encode_words(LineCutter(joins_, encoder_.simd_level_, first + start,
                                              ends[last] - start, first, ends + i, last - i),
                                   first, out);
                start = ends[last];
            }
            return out;
        }

        // Whether a merge may join the bytes before and after the end of a pre-token.
        CS336_INLINE bool may_join(const uint8_t* first, const uint8_t* place,
                                   const uint8_t* end) const {
            if (!superwords_.may_meet(place[-1], place[0])) return false;
            if (place - first < 3 || end - place < 5) return true;
            JoinFilter::Window window;
            std::memcpy(&window, place - 3, sizeof window);
            return encoder_.all_joins_.may_join(window);
        }

        // Encode a pre-token that is part of no batch.
        Id* encode_alone(const uint8_t* word, size_t length, Id* out) {
            return encode_words(LineCutter(joins_, encoder_.simd_level_, word, length), word, out);
        }

        // Encode what a cutter finds. The places of added tokens are relative to `origin`.
        Id* encode_words(LineCutter cutter, const uint8_t* origin, Id* out) {
            const uint8_t* start;
            uint32_t ends[LineCutter::CAPACITY];
            while (const size_t count = cutter.fill(start, ends)) {
                const Id* const end =
                    words_->encode_parts(start, uint32_t(start - origin), ends, count, next_rest_,
                                         resume_, joiner_.place(ends[count - 1]));
                out = joiner_.join(end, cutter.is_done(), out);
            }
            joiner_.trim();
            return out;
        }

        // Longer texts between added tokens are encoded on their own.
        static constexpr size_t MAX_SPAN = 1024;
        static constexpr size_t MAX_SPANS = 128;
        static constexpr uint32_t NEVER = UINT32_MAX;
        static constexpr uint8_t NO_TEXT = 0xFF;  // occurs in no UTF-8
        static constexpr size_t GROUP = 64;  // pieces whose entries and records are prefetched
        static constexpr size_t LEAST_IN_PIECE = 48;
        static constexpr int SEEN_BITS = 18;
        // The most bytes of a piece that is encoded again although it is in the cache, and of one
        // that is not yet put into the cache although it has occurred.
        static constexpr size_t MOST_FOUND = 32, MOST_SEEN = 64;

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
        const uint8_t* first_span_ = nullptr;
        uint32_t span_ends_[BATCH_CAPACITY];
        size_t num_span_ends_ = 0, num_spans_ = 0;
        Rest rests_[MAX_SPANS + 1];  // the added tokens after the spans, and one at no place
        const Rest* next_rest_ = rests_;
        uint32_t resume_ = 0;
        bool recurs_ = false;        // whether the start of the last line has occurred before
        std::vector<uint8_t> seen_;  // index: first bits of a piece's hash; value: the next bits
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
    const JoinFilter all_joins_;
    const Scanner scanner_;
    const SimdLevel simd_level_;
    const std::function<std::unique_ptr<TypedEncoder<Id>>()> make_whole_;
    mutable std::once_flag is_made_;
    mutable std::unique_ptr<TypedEncoder<Id>> whole_;
};

// Whether a pre-token may contain several words. Otherwise, two steps do not pay, although a merge
// may join a bracket and a letter.
inline bool may_contain_words(const Scanner& scanner) {
    const uint8_t words[] = {'a', ' ', 'a'};
    return !scanner.exists() || !scanner.is_safe_cut(words, 1);
}

template <class Id>
std::unique_ptr<Encoder> make_typed_encoder(const uint32_t* byte_ids, const uint32_t* merges,
                                            const std::vector<Join>& joins, size_t cache_bytes,
                                            Scanner scanner, SimdLevel simd_level,
                                            const WholeWords& whole_words = {},
                                            const Words* words = nullptr) {
    if (whole_words.empty() && may_contain_words(scanner)) {
        SuperwordMerges<Id> superwords(merges, joins);
        if (superwords.are_useful()) {
            return std::make_unique<SuperwordEncoder<Id>>(byte_ids, merges, joins,
                                                          std::move(superwords), cache_bytes,
                                                          std::move(scanner), simd_level);
        }
    }
    return std::make_unique<TypedEncoder<Id>>(byte_ids, merges, joins, cache_bytes,
                                              std::move(scanner), simd_level, whole_words, words);
}

// Return an encoder with 16-bit ids if `narrow`, otherwise with 32-bit ids. The other arguments are
// those of TypedEncoder.
template <class... Arguments>
std::unique_ptr<Encoder> make_encoder(bool narrow, Arguments&&... arguments) {
    if (narrow) return make_typed_encoder<uint16_t>(std::forward<Arguments>(arguments)...);
    return make_typed_encoder<uint32_t>(std::forward<Arguments>(arguments)...);
}

}  // namespace cs336
