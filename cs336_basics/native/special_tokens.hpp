// Special tokens: their occurrences in a text, and the safe cuts of a text.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "characters.hpp"

namespace cs336 {

// An occurrence of a special token in a text.
struct Occurrence {
    size_t offset, length;  // length 0: there is no further occurrence
    size_t token;           // index in SpecialTokens
};

// A set of special tokens, indexed by decreasing length.
class SpecialTokens {
  public:
    explicit SpecialTokens(std::vector<std::string> tokens = {}) : tokens_(std::move(tokens)) {
        std::stable_sort(tokens_.begin(), tokens_.end(),
                         [](const auto& a, const auto& b) { return a.size() > b.size(); });
        for (size_t i = 0; i < tokens_.size(); ++i) {
            const std::string& token = tokens_[i];
            by_first_byte_[uint8_t(token.front())].push_back(uint32_t(i));
            by_last_byte_[uint8_t(token.back())].push_back(uint32_t(i));
            rare_.push_back(rarest_byte(token));
            holds_replacement_ |= token.find("\xEF\xBF\xBD") != std::string::npos;
        }
    }

    bool empty() const { return tokens_.empty(); }
    size_t size() const { return tokens_.size(); }
    size_t length(size_t i) const { return tokens_[i].size(); }
    size_t longest() const { return empty() ? 0 : tokens_.front().size(); }
    // Whether a token contains U+FFFD, and so could match where invalid bytes are replaced.
    bool holds_replacement() const { return holds_replacement_; }

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

    // The first occurrence of any token at or after `from`; the longest where several begin.
    Occurrence find_any(const uint8_t* text, size_t size, size_t from) const {
        for (size_t i = from; i < size; ++i) {
            for (const uint32_t token : by_first_byte_[text[i]]) {
                if (matches(token, text, size, i)) return {i, tokens_[token].size(), token};
            }
        }
        return {size, 0, 0};
    }

    // Whether a token starts before `offset` and ends after it.
    bool crosses(const uint8_t* text, size_t size, size_t offset) const {
        const size_t reach = std::min(offset, longest() ? longest() - 1 : 0);
        for (size_t start = offset - reach; start < offset; ++start) {
            for (const uint32_t token : by_first_byte_[text[start]]) {
                if (start + tokens_[token].size() > offset && matches(token, text, size, start)) {
                    return true;
                }
            }
        }
        return false;
    }

    // Whether a token ends at `offset`, and no other token crosses its start or its end.
    bool ends_at(const uint8_t* text, size_t size, size_t offset) const {
        if (offset == 0) return false;
        for (const uint32_t token : by_last_byte_[text[offset - 1]]) {
            const size_t length = tokens_[token].size();
            if (length <= offset && matches(token, text, size, offset - length) &&
                !crosses(text, size, offset - length) && !crosses(text, size, offset)) {
                return true;
            }
        }
        return false;
    }

  private:
    bool matches(size_t token, const uint8_t* text, size_t size, size_t offset) const {
        const std::string& wanted = tokens_[token];
        return wanted.size() <= size - offset &&
               !std::memcmp(text + offset, wanted.data(), wanted.size());
    }

    // The offset of the byte of a token that is the rarest in most texts.
    static size_t rarest_byte(const std::string& token) {
        const auto frequency = [](uint8_t byte) {
            if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') return 3;
            if (byte >= 0x80 || byte == ' ' || byte == '\n') return 3;
            if (byte >= '0' && byte <= '9') return 2;
            return std::strchr(".,-'\"/()=<>_:;", byte) ? 1 : 0;
        };
        size_t best = 0;
        for (size_t i = 1; i < token.size(); ++i) {
            if (frequency(uint8_t(token[i])) < frequency(uint8_t(token[best]))) best = i;
        }
        return best;
    }

    std::vector<std::string> tokens_;  // longest first
    std::vector<size_t> rare_;         // of every token: the offset of its rarest byte
    std::vector<uint32_t> by_first_byte_[256], by_last_byte_[256];
    bool holds_replacement_ = false;
};

// Finds the occurrences of special tokens in a text from left to right, without overlaps.
class Occurrences {
  public:
    Occurrences(const SpecialTokens& tokens, const uint8_t* text, size_t size)
        : tokens_(tokens), text_(text), size_(size) {
        // For a few tokens one memchr each is fastest; for many, one pass that tests every byte.
        if (tokens.size() <= FEW) {
            for (size_t i = 0; i < tokens.size(); ++i) {
                next_[i] = tokens.find_one(i, text, size, 0);
            }
        }
    }

    // The first occurrence at or after `from`, which must not decrease from call to call.
    Occurrence next(size_t from) {
        if (tokens_.size() > FEW) return tokens_.find_any(text_, size_, from);
        Occurrence first = {size_, 0, 0};
        for (size_t i = 0; i < tokens_.size(); ++i) {
            if (next_[i] < from) next_[i] = tokens_.find_one(i, text_, size_, from);
            if (next_[i] < first.offset) first = {next_[i], tokens_.length(i), i};
        }
        return first;
    }

  private:
    static constexpr size_t FEW = 6;

    const SpecialTokens& tokens_;
    const uint8_t* text_;
    size_t size_;
    size_t next_[FEW] = {};
};

// Safe cuts: the offsets where a text can be cut without changing how it is split. The rule is that
// of chunking.py, which also explains why it holds.
class SafeCuts {
  public:
    SafeCuts(const SpecialTokens& tokens, bool line_feeds)
        : tokens_(tokens), line_feeds_(line_feeds) {}

    // The number of bytes on each side of an offset on which the rule depends.
    size_t margin() const { return 2 * tokens_.longest() + 4; }

    // The first safe cut in [from, stop); `stop` if there is none. `text` must include `margin`
    // bytes before `from` and after `stop`, or end there.
    size_t first(const uint8_t* text, size_t size, size_t from, size_t stop) const {
        if (tokens_.holds_replacement()) return stop;
        for (size_t cut = from; cut < stop; ++cut) {
            if (between_words(text, cut) && !tokens_.crosses(text, size, cut)) return cut;
            if (tokens_.ends_at(text, size, cut)) return cut;
        }
        return stop;
    }

  private:
    // Whether a blank (or line feed) at `offset` follows a character that is not white space.
    bool between_words(const uint8_t* text, size_t offset) const {
        if (offset == 0) return false;
        if (text[offset] != ' ' && !(line_feeds_ && text[offset] == '\n')) return false;
        const uint8_t before = text[offset - 1];
        if (before < 0x80) return before > 0x20 && before < 0x7F;
        return !ends_with_wide_space(text, offset);
    }

    // Whether [text, text + end), which ends with a byte above 127, ends with white space.
    static bool ends_with_wide_space(const uint8_t* text, size_t end) {
        const uint8_t last = text[end - 1];
        if (end >= 2 && text[end - 2] == 0xC2) return last == 0x85 || last == 0xA0;
        if (end < 3) return false;
        const uint8_t first = text[end - 3];
        // (The text may be invalid UTF-8; this accepts only a sequence of three bytes.)
        if (first < 0xE1 || first > 0xE3 || text[end - 2] < 0x80 || text[end - 2] > 0xBF ||
            last > 0xBF) {
            return false;
        }
        return character(text + end - 3).char_class == SPACE;
    }

    const SpecialTokens& tokens_;
    bool line_feeds_;
};

}  // namespace cs336
