// The programs of the named patterns, which need no compiler.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "scanning/named_programs.hpp"
#include "scanning/split_program.hpp"

namespace cs336 {

// KIND_RUNS as a table of blocks; see SplitTables.
struct KindTable {
    std::vector<uint16_t> block_of;
    std::vector<uint8_t> blocks;

    KindTable() {
        std::vector<uint8_t> kinds;
        kinds.reserve(0x110000);
        for (const uint32_t run : KIND_RUNS) kinds.insert(kinds.end(), run >> 8, uint8_t(run));
        for (size_t i = 0; i < kinds.size(); i += 64) {
            // Only adjacent equal blocks share one, which is enough.
            const bool same = i > 0 && !std::memcmp(&blocks[blocks.size() - 64], &kinds[i], 64);
            if (!same) blocks.insert(blocks.end(), kinds.begin() + i, kinds.begin() + i + 64);
            block_of.push_back(uint16_t(blocks.size() / 64 - 1));
        }
    }
};

// The program of the pattern with this name. Each is made only once. Throws std::invalid_argument
// if the pattern is newer than the compiled code.
inline std::shared_ptr<const SplitProgram> named_program(const char* name) {
    static const KindTable kinds;
    static std::array<std::shared_ptr<const SplitProgram>, std::size(NAMED_PROGRAMS)> made;
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    for (size_t i = 0; i < made.size(); ++i) {
        const NamedProgram& named = NAMED_PROGRAMS[i];
        if (std::strcmp(named.name, name)) continue;
        if (!made[i]) {
            std::vector<uint8_t> blocks = kinds.blocks;
            for (uint8_t& kind : blocks) kind = named.column_of_kind[kind];
            made[i] = std::make_shared<const SplitProgram>(
                SplitTables{named.transitions, named.num_states, named.num_columns,
                            kinds.block_of.data(), blocks.data(), blocks.size() / 64,
                            named.safe_cuts, named.threes, named.matches_all_text, named.name});
        }
        return made[i];
    }
    throw std::invalid_argument(std::string("pattern ") + name +
                                " is not compiled; build the extensions again");
}

}  // namespace cs336
