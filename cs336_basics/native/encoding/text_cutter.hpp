// A text in memory, cut into spans that can be encoded one by one.

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

// Gives the spans of a text one after the other. Of a text that is not UTF-8, only little more than
// a span is in UTF-8 at a time, so that it stays in the L2 cache.
class TextCutter {
  public:
    // `span_size`: about the size of a span, in bytes. `tokens` and `buffer`, which holds the UTF-8
    // where the text is something else, must outlive this object.
    TextCutter(const TextView& text, size_t span_size, const SpecialTokens& tokens,
               const Scanner& scanner, Buffer& buffer)
        : text_(text), span_size_(span_size), cuts_(tokens, scanner), buffer_(buffer) {}

    // The next span, which is valid until the one after it is requested; empty after the last one.
    // LONE_SURROGATE.
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
        // What remains of the UTF-8 after the last span moves to the front.
        size_ -= span_end_;
        if (size_) std::memmove(buffer_.data(), buffer_.data() + span_end_, size_);
        size_t from = span_size_;
        size_t wanted = span_size_ + cuts_.margin();
        for (;;) {
            if (!fill(wanted)) return {Failure::LONE_SURROGATE, 0, 0, 0, 0, ""};
            const bool whole = done_ == text_.length;
            span_end_ = size_;
            if (!whole || size_ > span_size_) {
                // The cuts up to `known` depend on bytes that are there.
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
    // Write UTF-8 until there are `wanted` bytes, or slightly more, or all; returns false at a lone
    // surrogate.
    bool fill(size_t wanted) {
        constexpr size_t LEAST = 1024;  // units at a time
        while (size_ < wanted && done_ < text_.length) {
            // So many units that they hardly exceed what is wanted.
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
    size_t done_ = 0;      // units that are in a span, or in `buffer_`
    size_t size_ = 0;      // bytes in `buffer_`
    size_t span_end_ = 0;  // of which the last span were so many
};

// All spans of a text in UTF-8.
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
