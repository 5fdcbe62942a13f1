// The table that readers of `tokenizer.json` are given, for programs that call them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// The byte of each code point of GPT-2's alphabet, as in byte_strings.py.
inline std::vector<uint16_t> byte_of_code() {
    std::vector<uint16_t> table(0x100 + 69, 0x100);
    size_t others = 0;
    for (uint16_t byte = 0; byte < 256; ++byte) {
        const bool is_printable = (byte >= 33 && byte < 127) || (byte >= 161 && byte != 173);
        table[is_printable ? byte : 0x100 + others++] = byte;
    }
    return table;
}
