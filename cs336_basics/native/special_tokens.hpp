// Special tokens: where they occur in a text, and where a text can be cut without changing how it is
// split.

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

struct Occurrence {
    size_t position, length;  // length 0: there is none
    size_t token;             // its place among the tokens, the longest first
};

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
    // A token that holds U+FFFD also matches where invalid bytes were replaced.
    bool holds_replacement() const { return holds_replacement_; }

    // The first occurrence of token number `i` at or after `from`; `size` if there is none.
    size_t find_one(size_t i, const uint8_t* text, size_t size, size_t from) const {
        const std::string& token = tokens_[i];
        const size_t offset = rare_[i];
        if (size < token.size()) return size;
        size_t place = from + offset;
        const size_t last = size - token.size() + offset;
        while (place <= last) {
            const void* hit = std::memchr(text + place, token[offset], last - place + 1);
            if (!hit) return size;
            place = static_cast<const uint8_t*>(hit) - text;
            if (!std::memcmp(text + place - offset, token.data(), token.size())) {
                return place - offset;
            }
            ++place;
        }
        return size;
    }

    // The first occurrence of any token at or after `from`, of those at one place the longest.
    Occurrence find_any(const uint8_t* text, size_t size, size_t from) const {
        for (size_t i = from; i < size; ++i) {
            for (const uint32_t token : by_first_byte_[text[i]]) {
                if (matches(token, text, size, i)) return {i, tokens_[token].size(), token};
            }
        }
        return {size, 0, 0};
    }

    // Whether a token starts before `place` and ends after it.
    bool crosses(const uint8_t* text, size_t size, size_t place) const {
        const size_t reach = std::min(place, longest() ? longest() - 1 : 0);
        for (size_t start = place - reach; start < place; ++start) {
            for (const uint32_t token : by_first_byte_[text[start]]) {
                if (start + tokens_[token].size() > place && matches(token, text, size, start)) {
                    return true;
                }
            }
        }
        return false;
    }

    // Whether an occurrence of a token that nothing crosses ends at `place`.
    bool ends_at(const uint8_t* text, size_t size, size_t place) const {
        if (place == 0) return false;
        for (const uint32_t token : by_last_byte_[text[place - 1]]) {
            const size_t length = tokens_[token].size();
            if (length <= place && matches(token, text, size, place - length) &&
                !crosses(text, size, place - length) && !crosses(text, size, place)) {
                return true;
            }
        }
        return false;
    }

  private:
    bool matches(size_t token, const uint8_t* text, size_t size, size_t place) const {
        const std::string& wanted = tokens_[token];
        return wanted.size() <= size - place &&
               !std::memcmp(text + place, wanted.data(), wanted.size());
    }

    // Where in a token the byte stands that most texts have least of.
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

    std::vector<std::string> tokens_;  // the longest first
    std::vector<size_t> rare_;
    std::vector<uint32_t> by_first_byte_[256], by_last_byte_[256];
    bool holds_replacement_ = false;
};

// Gives the occurrences of special tokens in a text from left to right, those that overlap an
// earlier one left out.
class Occurrences {
  public:
    Occurrences(const SpecialTokens& tokens, const uint8_t* text, size_t size)
        : tokens_(tokens), text_(text), size_(size) {
        // A search for each token runs at the speed of memory; for many tokens one that looks at
        // every byte is faster.
        if (tokens.size() <= FEW) {
            for (size_t i = 0; i < tokens.size(); ++i) {
                next_[i] = tokens.find_one(i, text, size, 0);
            }
        }
    }

    Occurrence next(size_t from) {
        if (tokens_.size() > FEW) return tokens_.find_any(text_, size_, from);
        Occurrence first = {size_, 0, 0};
        for (size_t i = 0; i < tokens_.size(); ++i) {
            if (next_[i] < from) next_[i] = tokens_.find_one(i, text_, size_, from);
            if (next_[i] < first.position) first = {next_[i], tokens_.length(i), i};
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

// --- safe cuts -----------------------------------------------------------------------------------

// Where text may be cut without changing how it is split; the rule is that of chunking.py, which
// also says why it holds.
class SafeCuts {
  public:
    SafeCuts(const SpecialTokens& tokens, bool line_feeds)
        : tokens_(tokens), line_feeds_(line_feeds) {}

    // Bytes on each side of a place that must be known.
    size_t margin() const { return 2 * tokens_.longest() + 4; }

    // The first cut p, from <= p < stop; `stop` if there is none. `text` holds `margin` bytes (or
    // all there are) before `from` and after `stop`.
    size_t first(const uint8_t* text, size_t size, size_t from, size_t stop) const {
        if (tokens_.holds_replacement()) return stop;
        for (size_t place = from; place < stop; ++place) {
            if (between_words(text, place) && !tokens_.crosses(text, size, place)) return place;
            if (tokens_.ends_at(text, size, place)) return place;
        }
        return stop;
    }

  private:
    bool between_words(const uint8_t* text, size_t place) const {
        if (place == 0 || !(text[place] == ' ' || (line_feeds_ && text[place] == '\n'))) return false;
        const uint8_t before = text[place - 1];
        if (before < 0x80) return before > 0x20 && before < 0x7F;
        return !ends_with_wide_space(text, place);
    }

    static bool ends_with_wide_space(const uint8_t* text, size_t place) {
        const uint8_t last = text[place - 1];
        if (place >= 2 && text[place - 2] == 0xC2) return last == 0x85 || last == 0xA0;
        if (place < 3) return false;
        const uint8_t first = text[place - 3];
        // (A first byte of three and two bytes after it; text that is not UTF-8 does no harm.)
        if (first < 0xE1 || first > 0xE3 || text[place - 2] < 0x80 || text[place - 2] > 0xBF ||
            last > 0xBF) {
            return false;
        }
        return character(text + place - 3).char_class == SPACE;
    }

    const SpecialTokens& tokens_;
    bool line_feeds_;
};

}  // namespace cs336
