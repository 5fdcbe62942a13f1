// JsonVocabulary: reads the vocabulary and the merges of a `tokenizer.json`.
//
// A JSON parser makes an object of each of the hundred thousand strings in such a file, which takes
// most of the time. This reader makes the tokens from the bytes of the file. It finds the two large
// values, `vocab` and `merges` of `model`, and leaves the rest to a JSON parser. It accepts only
// the usual form of the two values. For every other form and every mistake, it returns false, and
// the caller reads the whole file with the JSON parser.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "unicode/text_view.hpp"
#include "word_merging/words.hpp"

namespace cs336 {

class JsonVocabulary {
  public:
    // A part of the file.
    struct Range {
        size_t start = 0, end = 0;
    };
    // A string that is not in the byte alphabet, including its quotes, and its id.
    struct PlainString {
        Range range;
        uint32_t id;
    };

    // `file` is valid UTF-8, and `byte_of_code` has the byte that each code point of GPT-2's byte
    // alphabet stands for, or NO_BYTE; the last item applies to all higher code points. Both must
    // outlive this object.
    JsonVocabulary(const uint8_t* file, size_t size, const uint16_t* byte_of_code, size_t num_codes)
        : begin_(file),
          end_(file + size),
          next_(file),
          byte_of_code_(byte_of_code),
          last_code_(num_codes - 1) {}

    // Read the two values: add the tokens to `words`, which has room for the whole file, and append
    // the tokens of the merges, two for each, whose bytes are in this object. Returns false if the
    // file is not an object with the object `model`, or the values do not have the usual form.
    bool read(Words& words, std::vector<TextSpan>& pairs) {
        if (!find_key("model") || !take('{')) return false;
        do {
            const Range key = read_key();
            if (!key.end) return false;
            skip_space();
            const size_t start = next_ - begin_;
            if (is(key, "vocab")) {
                if (vocab.end || !read_vocab(words)) return false;
                vocab = {start, size_t(next_ - begin_)};
            } else if (is(key, "merges")) {
                if (merges.end || !read_merges(pairs)) return false;
                merges = {start, size_t(next_ - begin_)};
            } else if (!skip_value()) {
                return false;
            }
        } while (take(','));
        return vocab.end && merges.end;
    }

    Range vocab, merges;
    std::vector<PlainString> plain;

  private:
    static constexpr uint16_t NO_BYTE = 0x100;
    // Fewer than in usual files: memory that is reserved and not used costs nothing.
    static constexpr size_t BYTES_PER_TOKEN = 6;

    enum Kind { MALFORMED, PLAIN, IN_ALPHABET };
    struct Token {
        Kind kind;
        size_t size;
        const uint8_t* end;
        size_t middle = SIZE_MAX;  // size of the token before the space
    };

    bool read_vocab(Words& words) {
        if (!take('{')) return false;
        if (take('}')) return true;
        do {
            skip_space();
            const uint8_t* const start = next_;
            const Token token = read_token(words.room());
            uint32_t id;
            if (token.kind == MALFORMED || !take(':') || !read_id(id)) return false;
            if (token.kind == PLAIN) {
                plain.push_back({{size_t(start - begin_), size_t(token.end - begin_)}, id});
            } else {
                words.add(token.size, id);
            }
        } while (take(','));
        return take('}');
    }

    bool read_merges(std::vector<TextSpan>& pairs) {
        if (!take('[')) return false;
        if (take(']')) return true;
        merged_bytes_.reset(new uint8_t[end_ - next_]);
        pairs.reserve((end_ - next_) / BYTES_PER_TOKEN);
        uint8_t* room = merged_bytes_.get();
        const auto append = [&](size_t size) {
            pairs.push_back({room, size});
            room += size;
            return size != 0;
        };
        do {
            if (take('[')) {  // two strings
                for (int i = 0; i < 2; ++i) {
                    if (i && !take(',')) return false;
                    const Token token = read_token(room);
                    if (token.kind != IN_ALPHABET || !append(token.size)) return false;
                }
                if (!take(']')) return false;
            } else {  // a string: two tokens with a space between them
                const Token token = read_token(room, true);
                if (token.kind != IN_ALPHABET) return false;
                if (!append(token.middle) || !append(token.size - token.middle)) return false;
            }
        } while (take(','));
        return take(']');
    }

    void skip_space() {
        while (next_ < end_ &&
               (*next_ == ' ' || *next_ == '\n' || *next_ == '\r' || *next_ == '\t')) {
            ++next_;
        }
    }

    // Skip whitespace and a character, if it is there.
    bool take(uint8_t character) {
        skip_space();
        if (next_ == end_ || *next_ != character) return false;
        ++next_;
        return true;
    }

    bool read_id(uint32_t& id) {
        skip_space();
        const uint8_t* const start = next_;
        uint64_t number = 0;
        while (next_ < end_ && *next_ >= '0' && *next_ <= '9' && next_ - start <= 10) {
            number = 10 * number + (*next_++ - '0');
        }
        const size_t num_digits = next_ - start;
        id = uint32_t(number);
        return num_digits && num_digits <= 10 && (num_digits == 1 || *start != '0') &&
               number < Words::NO_ID;
    }

    // Write the bytes of the token in a string, which has at least as many characters. If `in_two`,
    // the string has two tokens with a space between them, which is not written.
    Token read_token(uint8_t* out, bool in_two = false) {
        const uint8_t* const start = out;
        if (!take('"')) return {MALFORMED, 0, next_};
        Kind kind = IN_ALPHABET;
        size_t middle = SIZE_MAX;
        const uint8_t* p = next_;
        while (p < end_) {
            uint32_t code = *p;
            if (code == '"') {
                next_ = p + 1;
                if (in_two && middle == SIZE_MAX) kind = MALFORMED;
                return {kind, size_t(out - start), next_, middle};
            }
            if (code < 0x20) break;
            if (code == '\\') {
                if (!read_escape(p, code)) break;
            } else if (code < 0x80) {
                ++p;
            } else {
                const int length = code < 0xE0 ? 2 : code < 0xF0 ? 3 : 4;
                code = length == 2 ? (code & 0x1F) << 6 | (p[1] & 0x3F) : UINT32_MAX;
                p += length;
            }
            if (in_two && code == ' ' && middle == SIZE_MAX) {
                middle = out - start;
                continue;
            }
            const uint16_t byte = byte_of_code_[std::min<size_t>(code, last_code_)];
            if (byte == NO_BYTE) {
                kind = PLAIN;
            } else {
                *out++ = uint8_t(byte);
            }
        }
        return {MALFORMED, 0, p};
    }

    // Read an escape sequence. Surrogates are read as one code point each, outside the alphabet.
    bool read_escape(const uint8_t*& p, uint32_t& code) const {
        if (end_ - p < 2) return false;
        const uint8_t kind = p[1];
        p += 2;
        static constexpr char NAMES[] = "\"\\/bfnrt", VALUES[] = "\"\\/\b\f\n\r\t";
        if (kind != 'u') {
            const void* const found = std::memchr(NAMES, kind, 8);
            if (!found) return false;
            code = uint8_t(VALUES[static_cast<const char*>(found) - NAMES]);
            return true;
        }
        if (end_ - p < 4) return false;
        code = 0;
        for (int i = 0; i < 4; ++i) {
            const uint8_t digit = *p++;
            const uint8_t letter = digit | 0x20;
            if (digit >= '0' && digit <= '9') {
                code = code << 4 | (digit - '0');
            } else if (letter >= 'a' && letter <= 'f') {
                code = code << 4 | (letter - 'a' + 10);
            } else {
                return false;
            }
        }
        return true;
    }

    // In the object that comes next, find a key that is written without escapes, and stop after the
    // colon.
    bool find_key(const char* key) {
        if (!take('{')) return false;
        do {
            const Range found = read_key();
            if (!found.end) return false;
            if (is(found, key)) return true;
            if (!skip_value()) return false;
        } while (take(','));
        return false;
    }

    // Read a key without its quotes, and the colon. The end is 0 if there is none.
    Range read_key() {
        skip_space();
        const uint8_t* const start = next_ + 1;
        if (!skip_string()) return {};
        const uint8_t* const end = next_ - 1;
        if (!take(':')) return {};
        return {size_t(start - begin_), size_t(end - begin_)};
    }

    bool is(Range range, const char* text) const {
        const size_t size = std::strlen(text);
        return range.end - range.start == size && !std::memcmp(begin_ + range.start, text, size);
    }

    bool skip_string() {
        if (next_ == end_ || *next_ != '"') return false;
        ++next_;
        while (next_ < end_) {
            // A quote ends the string unless an odd number of backslashes is before it.
            const void* const quote = std::memchr(next_, '"', end_ - next_);
            if (!quote) return false;
            const uint8_t* const at = static_cast<const uint8_t*>(quote);
            size_t num_backslashes = 0;
            while (at - num_backslashes > next_ && at[-1 - ptrdiff_t(num_backslashes)] == '\\') {
                ++num_backslashes;
            }
            next_ = at + 1;
            if (num_backslashes % 2 == 0) return true;
        }
        return false;
    }

    // Skip a value. Whether it is valid is checked by the JSON parser.
    bool skip_value() {
        size_t depth = 0;
        while (skip_space(), next_ < end_) {
            const uint8_t c = *next_;
            if (c == '"') {
                if (!skip_string()) return false;
            } else if (c == '{' || c == '[') {
                ++depth;
                ++next_;
            } else if (c == '}' || c == ']') {
                if (depth == 0) return false;
                --depth;
                ++next_;
            } else if (c == ',' || c == ':') {
                if (depth == 0) return false;
                ++next_;
            } else {  // a number or a name
                while (next_ < end_ && !std::strchr(" \t\r\n,:{}[]\"", *next_)) ++next_;
                if (next_ < end_ && *next_ == 0) return false;
            }
            if (depth == 0) return true;
        }
        return false;
    }

    const uint8_t* const begin_;
    const uint8_t* const end_;
    const uint8_t* next_;
    const uint16_t* const byte_of_code_;
    const size_t last_code_;
    std::unique_ptr<uint8_t[]> merged_bytes_;
};

}  // namespace cs336
