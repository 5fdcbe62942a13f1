// SpecialTokens: finds special tokens in text.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "base/simd_level.hpp"
#include "scanning/simd/prefix_search.hpp"
#include "scanning/simd/window.hpp"

namespace cs336 {

// An occurrence of a special token in text.
struct Occurrence {
    size_t offset, length;  // length 0: no further occurrence
    size_t token;           // index in SpecialTokens
};

// A set of special tokens, indexed in order of decreasing length.
class SpecialTokens {
  public:
    explicit SpecialTokens(std::vector<std::string> tokens = {},
                           SimdLevel simd_level = best_simd_level())
        : tokens_(std::move(tokens)), prefixes_(tokens_, simd_level) {
        std::stable_sort(tokens_.begin(), tokens_.end(),
                         [](const auto& a, const auto& b) { return a.size() > b.size(); });
        std::vector<std::string> reversed;
        for (const std::string& token : tokens_) {
            rare_.push_back(rarest_byte(token));
            have_rare_bytes_ &= frequency(uint8_t(token[rare_.back()])) < MOST_FREQUENT;
            has_replacement_ |= token.find("\xEF\xBF\xBD") != std::string::npos;
            reversed.emplace_back(token.rbegin(), token.rend());
            start_rarely_ &= frequency(uint8_t(token[0])) < MOST_FREQUENT;
            if (first_bytes_.find(token[0]) == std::string::npos) first_bytes_ += token[0];
        }
        forward_ = SortedTokens(tokens_);
        backward_ = SortedTokens(reversed);
        for (const char first : first_bytes_) {
            if (forward_.repeat(uint8_t(first)) && runs_.size() < UINT8_MAX) add_runs(first);
        }
    }

    bool empty() const { return tokens_.empty(); }
    size_t size() const { return tokens_.size(); }
    size_t length(size_t i) const { return tokens_[i].size(); }
    size_t longest() const { return empty() ? 0 : tokens_.front().size(); }
    // Whether a token contains U+FFFD, and so could match replaced invalid bytes.
    bool has_replacement() const { return has_replacement_; }

    // Whether a text may contain a token: it is long enough and contains a token's first byte.
    bool may_occur_in(const uint8_t* text, size_t size) const {
        if (empty() || size < tokens_.back().size()) return false;
        if (first_bytes_.size() > MAX_SEARCHED) return true;
        for (const char first : first_bytes_) {
            if (std::memchr(text, first, size)) return true;
        }
        return false;
    }

    // The first occurrence of token `i` at or after `from`; `size` if there is none.
    size_t find_one(size_t i, const uint8_t* text, size_t size, size_t from) const {
        const std::string& token = tokens_[i];
        if (size < token.size()) return size;
        // Search for the token's rarest byte.
        const size_t rare = rare_[i];
        size_t at = from + rare;
        const size_t last = size - token.size() + rare;
        while (at <= last) {
            const void* hit = std::memchr(text + at, token[rare], last - at + 1);
            if (!hit) return size;
            at = static_cast<const uint8_t*>(hit) - text;
            if (!std::memcmp(text + at - rare, token.data(), token.size())) return at - rare;
            ++at;
        }
        return size;
    }

    // The longest token that starts at `offset` <= `size`; its length is 0 if there is none.
    Occurrence at(const uint8_t* text, size_t size, size_t offset) const {
        if (const std::vector<RunToken>* run = run_at(text, size, offset)) {
            const size_t length = run_length(text + offset, size - offset, run->size() - 1);
            const RunToken found = (*run)[length];
            return {found.length ? offset : size, found.length, found.token};
        }
        const size_t token = longest_at(text, size, offset);
        if (token == NONE) return {size, 0, 0};
        return {offset, tokens_[token].size(), token};
    }

    // Finds the offsets where any token may start.
    const PrefixSearch& prefixes() const { return prefixes_; }

    // Whether each token contains a byte that is rare in typical text.
    bool have_rare_bytes() const { return have_rare_bytes_; }
    // The different first bytes of the tokens.
    const std::string& first_bytes() const { return first_bytes_; }
    // Whether all first bytes are rare in typical text.
    bool start_rarely() const { return start_rarely_; }

    // The first offset at or after `from` where a token starts with `first`; `size` if there is
    // none.
    size_t find_first(uint8_t first, const uint8_t* text, size_t size, size_t from) const {
        while (from < size) {
            const void* hit = std::memchr(text + from, first, size - from);
            if (!hit) break;
            from = static_cast<const uint8_t*>(hit) - text;
            if (longest_at(text, size, from) != NONE) return from;
            ++from;
        }
        return size;
    }

    // The end of the longest token that starts at `offset`; `offset` if there is none.
    size_t end_of_longest(const uint8_t* text, size_t size, size_t offset) const {
        const size_t token = longest_at(text, size, offset);
        return token == NONE ? offset : offset + tokens_[token].size();
    }

    // Whether a token starts before `offset` and ends after it.
    bool crosses(const uint8_t* text, size_t size, size_t offset) const {
        const size_t reach = std::min(offset, longest() ? longest() - 1 : 0);
        for (size_t start = offset - reach; start < offset; ++start) {
            if (end_of_longest(text, size, start) > offset) return true;
        }
        return false;
    }

    // Whether a token ends at `offset` and no other token crosses its start. The caller must have
    // checked that no token crosses `offset`.
    bool ends_at_uncrossed(const uint8_t* text, size_t size, size_t offset) const {
        bool found = false;
        backward_.each_match(
            offset, [&](size_t i) { return text[offset - 1 - i]; },
            [&](size_t token) {
                found = !crosses(text, size, offset - tokens_[token].size());
                return found;
            });
        return found;
    }

  private:
    static constexpr size_t NONE = SIZE_MAX;
    static constexpr int MOST_FREQUENT = 3;
    static constexpr size_t MAX_SEARCHED = 3;

    // Sorted tokens. Each additional byte of a text narrows the range of tokens that start with the
    // same bytes, so searching for many tokens takes hardly any longer than searching for one.
    class SortedTokens {
      public:
        SortedTokens() = default;
        explicit SortedTokens(const std::vector<std::string>& tokens) {
            for (size_t i = 0; i < tokens.size(); ++i) sorted_.emplace_back(tokens[i], i);
            std::sort(sorted_.begin(), sorted_.end());
            for (const auto& [token, index] : sorted_) ++ends_[uint8_t(token[0]) + 1];
            for (size_t byte = 0; byte < 256; ++byte) ends_[byte + 1] += ends_[byte];
        }

        // Whether every token that starts with a byte repeats it, and there is such a token.
        bool repeat(uint8_t byte) const {
            const auto repeats = [&](const auto& token) {
                return token.first.find_first_not_of(char(byte)) == std::string::npos;
            };
            return ends_[byte] < ends_[byte + 1] &&
                   std::all_of(sorted_.begin() + ends_[byte], sorted_.begin() + ends_[byte + 1],
                               repeats);
        }

        // Call `visit(token)` for every token that is a prefix of the `size` bytes `text_byte(0)`,
        // `text_byte(1)`, ..., shortest first, until it returns true.
        template <class TextByte, class Visit>
        void each_match(size_t size, TextByte text_byte, Visit visit) const {
            if (size == 0) return;
            const size_t first = text_byte(0);
            if (ends_[first] == ends_[first + 1]) return;
            auto low = sorted_.begin() + ends_[first], high = sorted_.begin() + ends_[first + 1];
            for (size_t depth = 1; low < high; ++depth) {
                // All tokens in the range start with the first `depth` bytes of the text.
                if (low->first.size() == depth && visit((low++)->second)) return;
                if (depth == size || low == high) return;
                const uint8_t wanted = text_byte(depth);
                const auto byte_of = [&](const auto& token) { return uint8_t(token.first[depth]); };
                if (byte_of(*low) == wanted && byte_of(*(high - 1)) == wanted) continue;
                low = std::partition_point(
                    low, high, [&](const auto& token) { return byte_of(token) < wanted; });
                high = std::partition_point(
                    low, high, [&](const auto& token) { return byte_of(token) == wanted; });
            }
        }

      private:
        std::vector<std::pair<std::string, size_t>> sorted_;  // tokens and their indices
        size_t ends_[257] = {};  // ends_[b]: the end of the tokens whose first byte is below b
    };

    // The longest token in a run of a certain length; its length is 0 if there is none.
    struct RunToken {
        uint32_t length;
        uint32_t token;
    };

    // For runs of a byte whose tokens all repeat it, such as spaces in vocabularies for code: the
    // longest token in a run, by the length of the run.
    void add_runs(char byte) {
        std::vector<RunToken> token_of_length;
        for (size_t i = tokens_.size(); i--;) {  // shortest first
            if (tokens_[i][0] != byte) continue;
            const RunToken shorter = token_of_length.empty() ? RunToken{} : token_of_length.back();
            token_of_length.resize(tokens_[i].size(), shorter);
            token_of_length.push_back({uint32_t(tokens_[i].size()), uint32_t(i)});
        }
        runs_.push_back(std::move(token_of_length));
        runs_of_[uint8_t(byte)] = uint8_t(runs_.size());
    }

    // The tokens that repeat the byte at `offset`, by the length of the run; null if there are
    // other tokens that start with it, or none.
    const std::vector<RunToken>* run_at(const uint8_t* text, size_t size, size_t offset) const {
        if (offset == size) return nullptr;
        const size_t number = runs_of_[text[offset]];
        return number ? &runs_[number - 1] : nullptr;
    }

    // The number of bytes, at most `most`, at the start of a text that are equal to the first.
    static size_t run_length(const uint8_t* text, size_t size, size_t most) {
        size_t length = 1;
#if defined(CS336_X86)
        if (size >= 32) {  // most runs end here, without a branch that depends on their length
            const __m128i first = _mm_set1_epi8(char(text[0]));
            const auto equal = [&](size_t offset) {
                const auto* bytes = reinterpret_cast<const __m128i*>(text + offset);
                return uint32_t(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(bytes), first)));
            };
            const uint64_t others = ~uint64_t{equal(0) | equal(16) << 16};
            length = size_t(lowest_bit(others));
            if (length < 32) return std::min(most, length);
        }
#endif
        while (length < most && length < size && text[length] == text[0]) ++length;
        return std::min(most, length);
    }

    // The longest token at `offset`, or NONE.
    size_t longest_at(const uint8_t* text, size_t size, size_t offset) const {
        if (offset == size) return NONE;
        if (const std::vector<RunToken>* run = run_at(text, size, offset)) {
            const size_t length = run_length(text + offset, size - offset, run->size() - 1);
            const RunToken found = (*run)[length];
            return found.length ? found.token : NONE;
        }
        size_t longest = NONE;
        forward_.each_match(
            size - offset, [&](size_t i) { return text[offset + i]; },
            [&](size_t token) {
                longest = token;
                return false;
            });
        return longest;
    }

    // How frequent a byte is in typical text, from 0 to MOST_FREQUENT.
    static int frequency(uint8_t byte) {
        if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') return MOST_FREQUENT;
        if (byte >= 0x80 || byte == ' ' || byte == '\n') return MOST_FREQUENT;
        if (byte >= '0' && byte <= '9') return 2;
        return std::strchr(".,-'\"/()=<>_:;", byte) ? 1 : 0;
    }

    // The offset, within the token, of the byte that is rarest in typical text.
    static size_t rarest_byte(const std::string& token) {
        size_t best = 0;
        for (size_t i = 1; i < token.size(); ++i) {
            if (frequency(uint8_t(token[i])) < frequency(uint8_t(token[best]))) best = i;
        }
        return best;
    }

    std::vector<std::string> tokens_;  // longest first
    PrefixSearch prefixes_;
    std::string first_bytes_;
    bool have_rare_bytes_ = true, start_rarely_ = true;
    std::vector<size_t> rare_;         // the offset of each token's rarest byte
    SortedTokens forward_, backward_;  // the tokens, and the reversed tokens
    std::vector<std::vector<RunToken>> runs_;  // see add_runs
    uint8_t runs_of_[256] = {};              // by first byte: index in `runs_` plus 1, or 0
    bool has_replacement_ = false;
};

// Finds the non-overlapping occurrences of special tokens in text, from left to right.
class Occurrences {
  public:
    Occurrences(const SpecialTokens& tokens, const uint8_t* text, size_t size)
        : tokens_(tokens),
          text_(text),
          size_(size),
          by_token_(tokens.size() <= FEW && tokens.have_rare_bytes()),
          by_first_byte_(!by_token_ && tokens.first_bytes().size() <= FEW_FIRST_BYTES &&
                         tokens.start_rarely()) {
        // For a few tokens with rare bytes, one memchr per token is fastest. Many tokens often have
        // a few rare first bytes, such as '<'. Else, a search for prefixes is fastest.
        if (by_token_) {
            for (size_t i = 0; i < tokens.size(); ++i) {
                next_[i] = tokens.find_one(i, text, size, 0);
            }
        } else if (by_first_byte_) {
            for (size_t i = 0; i < tokens.first_bytes().size(); ++i) {
                next_[i] = tokens.find_first(tokens.first_bytes()[i], text, size, 0);
            }
        }
    }

    // Write the next occurrences from `from` on, at least one and at most `capacity`. The last one
    // has the length 0 if there are no more.
    size_t fill(size_t from, Occurrence* found, size_t capacity) {
        if (!by_token_ && !by_first_byte_) return fill_by_prefix(from, found, capacity);
        const size_t start = from;
        size_t count = 0;
        do {
            found[count] = next(from);
            from = found[count].offset + found[count].length;
        } while (found[count++].length && count < std::min(capacity, FEW_TOKENS));
        // Searches for rare bytes find every token several times, which is slow if it is frequent.
        if (count == FEW_TOKENS && from - start < FEW_TOKENS * RARE) {
            by_token_ = by_first_byte_ = false;
        }
        return count;
    }

    // The first occurrence at or after `from`, which must be the end of the one before.
    Occurrence next(size_t from) {
        if (by_first_byte_) return next_by_first_byte(from);
        if (!by_token_) {
            Occurrence found;
            fill_by_prefix(from, &found, 1);
            return found;
        }
        Occurrence first = {size_, 0, 0};
        for (size_t i = 0; i < tokens_.size(); ++i) {
            if (next_[i] < from) next_[i] = tokens_.find_one(i, text_, size_, from);
            if (next_[i] < first.offset) first = {next_[i], tokens_.length(i), i};
        }
        return first;
    }

  private:
    static constexpr size_t FEW = 6;
    static constexpr size_t FEW_FIRST_BYTES = 3;
    static constexpr size_t FEW_TOKENS = 4;
    static constexpr size_t RARE = 256;  // bytes from one token to the next, on average

    Occurrence next_by_first_byte(size_t from) {
        const std::string& first_bytes = tokens_.first_bytes();
        size_t first = size_;
        for (size_t i = 0; i < first_bytes.size(); ++i) {
            if (next_[i] < from) {
                next_[i] = tokens_.find_first(first_bytes[i], text_, size_, from);
            }
            first = std::min(first, next_[i]);
        }
        return tokens_.at(text_, size_, first);
    }

    // If the compiler inlined this, dense tokens would take 10 % longer.
    CS336_NOINLINE size_t fill_by_prefix(size_t from, Occurrence* found, size_t capacity) {
        const uint8_t* const text = text_;  // local copies stay in registers
        const size_t size = size_;
        size_t count = 0;
        for (;;) {
            if (from >= candidates_.end) {
                if (from >= size) break;
                tokens_.prefixes().find(text, size, from, candidates_);
                if (candidates_.begin == candidates_.end) break;
                next_start_ = 0;
            }
            const size_t begin = candidates_.begin, num_starts = candidates_.num_starts;
            size_t i = next_start_;
            from = std::max(from, begin);
            while (from < candidates_.end) {
                // After a token or a candidate that is none, there may be more in the same row.
                size_t offset = from;
                if (CS336_UNLIKELY(candidates_.has(from))) {
                } else if (i < num_starts) {
                    offset = begin + candidates_.starts[i++];
                    if (CS336_UNLIKELY(offset < from)) continue;
                } else {
                    from = candidates_.end;
                    break;
                }
                const Occurrence token = tokens_.at(text, size, offset);
                from = offset + (token.length ? token.length : 1);
                found[count] = token;
                count += token.length != 0;
                if (count == capacity) {
                    next_start_ = i;
                    return count;
                }
            }
            next_start_ = i;
        }
        found[count++] = {size, 0, 0};
        return count;
    }

    const SpecialTokens& tokens_;
    const uint8_t* text_;
    size_t size_;
    bool by_token_, by_first_byte_;
    size_t next_[FEW] = {};  // the next occurrence of each token, or with each first byte
    PrefixSearch::Candidates candidates_;
    size_t next_start_ = 0;  // index of a start that is not checked yet
};

}  // namespace cs336
