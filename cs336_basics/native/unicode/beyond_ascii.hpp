// The characters of a text that are not ASCII. Of a mostly English text, these are few.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "unicode/text_view.hpp"

namespace cs336 {

// The offset of the first unit of `units[i:length]` that is not ASCII, or `length`.
template <class Unit>
size_t end_of_ascii(const Unit* units, size_t i, size_t length) {
    constexpr size_t STEP = 16;
    for (; length - i >= STEP; i += STEP) {
        Unit all = 0;  // this loop is vectorized
        for (size_t j = 0; j < STEP; ++j) all |= units[i + j];
        if (all >= 0x80) break;
    }
    while (i < length && units[i] < 0x80) ++i;
    return i;
}

// Call `visit(start, end)` for each run of characters that are not ASCII, together with the ASCII
// character before it, which may be joined with them. Return false as soon as `visit` does.
template <class Unit, class Visit>
bool each_run_beyond_ascii(const Unit* units, size_t length, Visit visit) {
    for (size_t i = end_of_ascii(units, 0, length); i < length;) {
        const size_t start = i ? i - 1 : 0;
        while (i < length && units[i] >= 0x80) ++i;
        if (!visit(start, i)) return false;
        i = end_of_ascii(units, i, length);
    }
    return true;
}

template <class Visit>
bool each_run_beyond_ascii(const TextView& text, Visit visit) {
    if (text.kind == TextView::UTF8) {
        return each_run_beyond_ascii(static_cast<const uint8_t*>(text.data), text.length, visit);
    }
    return with_units(text, [&](const auto* units) {
        return each_run_beyond_ascii(units, text.length, visit);
    });
}

// Units `start` to `end` of a text.
struct RunBeyondAscii {
    size_t start, end;
};

inline std::vector<RunBeyondAscii> runs_beyond_ascii(const TextView& text) {
    std::vector<RunBeyondAscii> runs;
    each_run_beyond_ascii(text, [&](size_t start, size_t end) {
        runs.push_back({start, end});
        return true;
    });
    return runs;
}

// Append the units of all runs, as bytes. Return false as soon as they are more than `max_units`.
inline bool join_beyond_ascii(const TextView& text, size_t max_units,
                              std::vector<uint8_t>& joined) {
    return each_run_beyond_ascii(text, [&](size_t start, size_t end) {
        if (end - start > max_units) return false;
        max_units -= end - start;
        const void* const last = part_of(text, end, end).data;
        joined.insert(joined.end(), static_cast<const uint8_t*>(part_of(text, start, end).data),
                      static_cast<const uint8_t*>(last));
        return true;
    });
}

}  // namespace cs336
