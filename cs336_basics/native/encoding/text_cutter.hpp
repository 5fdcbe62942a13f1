// TextCutter: cuts a text in memory into spans that can be encoded one by one.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/failure.hpp"
#include "base/memory.hpp"
#include "scanning/safe_cuts.hpp"
#include "scanning/scanner.hpp"
#include "scanning/special_tokens.hpp"
#include "unicode/text_view.hpp"

namespace cs336 {

// Returns the spans of a text in order. A text that is not UTF-8 is converted span by span, so that
// the converted span stays in the L2 cache.
class TextCutter {
  public:
    // `span_size` is the approximate size of a span in bytes. `buffer` stores the converted text.
    // `tokens` and `buffer` must outlive this object.
    TextCutter(const TextView& text, size_t span_size, const SpecialTokens& tokens,
               const Scanner& scanner, Buffer& buffer)
        : text_(text), span_size_(span_size), cuts_(tokens, scanner), buffer_(buffer) {}

    // Find the next span, which is valid until the next call. After the last span, `span` is empty.
    // Returns a LONE_SURROGATE failure if the text contains a lone surrogate.
    Failure next(TextSpan& span) {
        if (text_.kind == TextView::UTF8) {
            const uint8_t* const text = static_cast<const uint8_t*>(text_.data);
            const size_t start = done_;
            done_ = text_.length;
            if (text_.length - start > span_size_) {
                done_ = cuts_.first(text, text_.length, start + span_size_, text_.length);
            }
            span = {text + start, done_ - start};
            return {};
        }
        // Move the converted text after the last span to the front.
        size_ -= span_end_;
        if (size_) std::memmove(buffer_.data(), buffer_.data() + span_end_, size_);
        size_t from = span_size_;
        size_t wanted = span_size_ + cuts_.margin();
        for (;;) {
            if (!fill(wanted)) return {Failure::LONE_SURROGATE, 0, 0, 0, 0, ""};
            const bool whole = done_ == text_.length;
            span_end_ = size_;
            if (!whole || size_ > span_size_) {
                // Cuts before `known` depend only on bytes in the buffer.
                const size_t known = whole ? size_ : size_ - cuts_.margin();
                span_end_ = cuts_.first(buffer_.data(), size_, std::min(from, known), known);
                if (span_end_ == known && !whole) {
                    from = known;
                    wanted = 2 * size_;
                    continue;
                }
            }
            span = {buffer_.data(), span_end_};
            return {};
        }
    }

  private:
    // Convert text until the buffer has at least `wanted` bytes or the text ends. Returns false at
    // a lone surrogate.
    bool fill(size_t wanted) {
        constexpr size_t LEAST = 1024;  // units at a time
        while (size_ < wanted && done_ < text_.length) {
            // Choose the number of units so that the buffer hardly exceeds `wanted` bytes.
            const size_t count = std::max((wanted - size_) / 4, LEAST);
            const size_t end = std::min(text_.length, done_ + count);
            const TextView units = {nullptr, end - done_, text_.kind};
            buffer_.reserve(size_ + utf8_bound(units), size_);
            const uint8_t* const written = write_utf8(text_, done_, end, buffer_.data() + size_);
            if (!written) return false;
            size_ = size_t(written - buffer_.data());
            done_ = end;
        }
        return true;
    }

    const TextView text_;
    const size_t span_size_;
    const SafeCuts cuts_;
    Buffer& buffer_;
    size_t done_ = 0;      // units already in a span or in `buffer_`
    size_t size_ = 0;      // bytes in `buffer_`
    size_t span_end_ = 0;  // the end of the last span in `buffer_`
};

// Return all spans of a UTF-8 text.
inline std::vector<TextView> cut_text(TextSpan text, size_t span_size, const SpecialTokens& tokens,
                                      const Scanner& scanner) {
    Buffer unused;
    TextCutter cutter({text.data, text.size, TextView::UTF8}, span_size, tokens, scanner, unused);
    std::vector<TextView> spans;
    TextSpan span;
    while (cutter.next(span), span.size) spans.push_back({span.data, span.size, TextView::UTF8});
    return spans;
}

}  // namespace cs336
