// cut_text: cuts a text in memory into spans that can be encoded one by one.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory.hpp"
#include "scanning/safe_cuts.hpp"
#include "scanning/scanner.hpp"
#include "scanning/special_tokens.hpp"
#include "unicode/text_view.hpp"

namespace cs336 {

// The first safe cut at or after the unit `from`; the length of the text if there is none. `buffer`
// stores text near the cut, converted to UTF-8.
inline size_t cut_at_or_after(const TextView& text, size_t from, const SafeCuts& cuts,
                              Buffer& buffer) {
    if (text.kind == TextView::UTF8) {
        return cuts.first(static_cast<const uint8_t*>(text.data), text.length, from, text.length);
    }
    // Every unit takes at least one byte, so a margin in units is large enough.
    for (size_t step = 2048 + 2 * cuts.margin(); from < text.length; step *= 2) {
        const size_t start = from - std::min(from, cuts.margin());
        const size_t end = from + std::min(text.length - from, step);
        const size_t first = utf8_size(part_of(text, start, from));
        const TextView part = part_of(text, start, end);
        buffer.reserve(utf8_bound(part), 0);
        const uint8_t* const stop = write_utf8(part, buffer.data());
        if (!stop) break;  // a lone surrogate, which is reported when the span is encoded
        const size_t size = size_t(stop - buffer.data());
        // Cuts before `known` depend only on bytes in the buffer.
        const size_t known = end == text.length ? size : size - cuts.margin();
        const size_t cut = cuts.first(buffer.data(), size, first, known);
        if (cut != known) {
            const auto starts_character = [](uint8_t byte) { return (byte & 0xC0) != 0x80; };
            const uint8_t* const bytes = buffer.data();
            return start + size_t(std::count_if(bytes, bytes + cut, starts_character));
        }
        from = end == text.length ? end : end - cuts.margin();
    }
    return text.length;
}

// Return the spans of a text, in order, each with about `span_size` units.
inline std::vector<TextView> cut_text(const TextView& text, size_t span_size,
                                      const SpecialTokens& tokens, const Scanner& scanner) {
    const SafeCuts cuts(tokens, scanner);
    Buffer buffer;
    std::vector<TextView> spans;
    for (size_t start = 0; start < text.length;) {
        size_t end = text.length;
        if (end - start > span_size) end = cut_at_or_after(text, start + span_size, cuts, buffer);
        spans.push_back(part_of(text, start, end));
        start = end;
    }
    return spans;
}

}  // namespace cs336
