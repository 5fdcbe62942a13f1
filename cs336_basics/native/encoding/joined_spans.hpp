// JoinedSpans: the short texts between added tokens, copied into one text that is scanned at once.
//
// Code has a token for a run of spaces on nearly every line. Starting the scanner for each of the
// short texts between them takes longer than encoding them. Between two copied texts stand two
// characters with a safe cut on both sides, so every text is split as if it were alone.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "scanning/scanner.hpp"

namespace cs336 {

// The characters with which texts can be joined, for one split pattern.
class Joints {
  public:
    explicit Joints(const Scanner& scanner) {
        if (!scanner.exists() || !scanner.starts_again()) return;
        for (uint8_t left = 0; left < 128; ++left) {
            for (uint8_t right = 0; right < 128; ++right) {
                const uint8_t pair[2] = {left, right};
                is_cut_[left][right] = scanner.is_safe_cut(pair, 1);
            }
        }
        for (uint8_t character = 0; character < 128; ++character) {
            for (const char joint : {' ', '\n', '1', 'a', '!'}) {
                if (!after_[character] && is_cut_[character][uint8_t(joint)]) {
                    after_[character] = joint;
                }
                if (!before_[character] && is_cut_[uint8_t(joint)][character]) {
                    before_[character] = joint;
                }
            }
            exist_ |= after_[character] && before_[character];
        }
    }

    // Whether some texts can be joined.
    bool exist() const { return exist_; }
    // Whether there is a safe cut between two ASCII characters.
    bool is_cut(uint8_t left, uint8_t right) const { return is_cut_[left][right]; }
    // A character that can follow an ASCII character; 0 if there is none.
    char after(uint8_t last) const { return after_[last]; }
    // A character that can precede the first byte of a text; 0 if there is none.
    char before(uint8_t first) const { return first < 0x80 ? before_[first] : 0; }

  private:
    bool is_cut_[128][128] = {};
    char after_[128] = {}, before_[128] = {};
    bool exist_ = false;
};

class JoinedSpans {
  public:
    static constexpr size_t MAX_SPAN = 256;
    static constexpr size_t MAX_SPANS = 128;
    static constexpr size_t MAX_TAIL = 8;

    // A text is divided into a body, which is copied, and a tail of whitespace, which is not copied
    // if nothing can follow it.
    struct Span {
        uint32_t start, end;  // of the body, in the joined text
        uint32_t tail_length;
        uint32_t id;  // of the added token after the text
        const uint8_t* tail;
    };

    // Add a text of at most MAX_SPAN bytes, and the id of the token after it. Returns false if the
    // text cannot be joined to those before it. An empty object takes any text.
    bool add(const Scanner& scanner, const Joints& joints, const uint8_t* text, size_t length,
             uint32_t id) {
        if (num_spans_ == MAX_SPANS) return false;
        if (length <= MAX_TAIL && is_blank(text, length)) {
            spans_[num_spans_++] = {size_, size_, uint32_t(length), id, text};
            return true;
        }
        uint32_t start = size_;
        if (size_) {
            const char before = joints.before(text[0]);
            if (!joint_ || !before || size_ + 2 + length > MAX_SHORT_TEXT) return false;
            text_[start++] = uint8_t(joint_);
            text_[start++] = uint8_t(before);
        }
        std::memcpy(text_ + start, text, length);
        size_t body = length;
        joint_ = joint_after(scanner, joints, start, body);
        if (!joint_) {
            while (body && length - body < MAX_TAIL && is_whitespace(text[body - 1])) --body;
            if (body && body < length && is_cut(scanner, joints, text, body)) {
                joint_ = joint_after(scanner, joints, start, body);
            }
            if (!joint_) body = length;
        }
        size_ = uint32_t(start + body);
        spans_[num_spans_++] = {start, size_, uint32_t(length - body), id, text + body};
        return true;
    }

    bool empty() const { return num_spans_ == 0; }
    void clear() {
        num_spans_ = 0;
        size_ = 0;
        joint_ = 0;
    }

    // Write SPACES_AFTER spaces after the joined text.
    void pad() { std::memset(text_ + size_, ' ', SPACES_AFTER); }

    const uint8_t* text() const { return text_; }
    size_t size() const { return size_; }
    const Span* begin() const { return spans_; }
    const Span* end() const { return spans_ + num_spans_; }

  private:
    static bool is_whitespace(uint8_t byte) {
        return byte == ' ' || (byte >= '\t' && byte <= '\r');
    }
    static bool is_blank(const uint8_t* text, size_t length) {
        while (length && is_whitespace(text[length - 1])) --length;
        return !length;
    }

    static bool is_cut(const Scanner& scanner, const Joints& joints, const uint8_t* text,
                       size_t offset) {
        const uint8_t last = text[offset - 1];
        return last < 0x80 ? joints.is_cut(last, text[offset]) : scanner.is_safe_cut(text, offset);
    }

    // A character that can follow the first `length` bytes of the text at `start`; 0 if there is
    // none.
    char joint_after(const Scanner& scanner, const Joints& joints, size_t start, size_t length) {
        uint8_t* const text = text_ + start;
        if (text[length - 1] < 0x80) return joints.after(text[length - 1]);
        text[length] = ' ';
        return scanner.is_safe_cut(text, length) ? ' ' : 0;
    }

    uint32_t size_ = 0;
    size_t num_spans_ = 0;
    char joint_ = 0;  // can follow the joined text
    Span spans_[MAX_SPANS];
    uint8_t text_[MAX_SHORT_TEXT + SPACES_AFTER];
};

}  // namespace cs336
