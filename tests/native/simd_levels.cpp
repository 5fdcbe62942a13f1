// Compares all SIMD levels with the SplitProgram of each pattern. test_emulated_simd.py builds this
// file.
//
// The argument is a folder with a `texts` file (each text's length, as uint64, and its bytes,
// padded to a multiple of eight) and a file named after each pattern, which contains the tables of
// the pattern's SplitProgram.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "scanning/scanner.hpp"

namespace {

using namespace cs336;

std::vector<char> content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "%s: cannot read the file\n", path.c_str());
        std::exit(1);
    }
    return {std::istreambuf_iterator<char>(file), {}};
}

// Return the program stored in a file. The file contains the numbers of states, columns and blocks,
// a flag that is set if there are `threes`, and the arrays.
std::shared_ptr<const SplitProgram> program_of(const std::vector<char>& file) {
    const auto* sizes = reinterpret_cast<const uint64_t*>(file.data());
    const char* p = file.data() + 4 * sizeof(uint64_t);
    SplitTables tables;
    tables.num_states = sizes[0];
    tables.num_columns = sizes[1];
    tables.num_blocks = sizes[2];
    tables.transitions = reinterpret_cast<const uint16_t*>(p);
    p += sizes[0] * sizes[1] * sizeof(uint16_t);
    tables.block_of = reinterpret_cast<const uint16_t*>(p);
    p += 0x110000 / 64 * sizeof(uint16_t);
    tables.blocks = reinterpret_cast<const uint8_t*>(p);
    p += sizes[2] * 64;
    tables.safe_cuts = reinterpret_cast<const uint8_t*>(p);
    p += sizes[1] * sizes[1];
    tables.threes = sizes[3] ? reinterpret_cast<const uint8_t*>(p) : nullptr;
    return std::make_shared<SplitProgram>(tables);
}

std::vector<size_t> ends_of(const Scanner& scanner, const std::string& text) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
    ScanState state(scanner.num_states());
    std::vector<size_t> result;
    uint32_t ends[BATCH_CAPACITY];
    for (size_t position = 0; position < text.size();) {
        const size_t origin = position;
        const size_t count = scanner.fill(bytes, text.size(), position, ends, state);
        for (size_t i = 0; i < count; ++i) result.push_back(origin + ends[i]);
    }
    return result;
}

}  // namespace

int main(int, char** arguments) {
    const std::string folder = arguments[1];
    std::vector<std::string> texts;
    const std::vector<char> all = content(folder + "/texts");
    for (size_t i = 0; i < all.size();) {
        const uint64_t size = *reinterpret_cast<const uint64_t*>(&all[i]);
        texts.emplace_back(&all[i] + sizeof(uint64_t), size);
        i += (sizeof(uint64_t) + size + 7) / 8 * 8;
    }
    std::vector<std::string> names = {"gpt2", "cl100k"};
    for (const MaskedPattern& pattern : MASKED_PATTERNS) names.push_back(pattern.name);
    long comparisons = 0;
    for (size_t k = 0; k < names.size(); ++k) {
        const auto program = program_of(content(folder + "/" + names[k]));
        for (int level = 0; level < NUM_SIMD_LEVELS; ++level) {
            const Scanner scanner =
                k < 2 ? Scanner(k == 1, SimdLevel(level))
                      : Scanner(program, MASKED_PATTERNS[k - 2], SimdLevel(level));
            for (const std::string& text : texts) {
                if (ends_of(scanner, text) != ends_of(Scanner(program), text)) {
                    std::printf("%s, %s: %s\n", names[k].c_str(), SIMD_LEVEL_NAMES[level],
                                text.c_str());
                    return 1;
                }
                ++comparisons;
            }
        }
    }
    std::printf("%ld\n", comparisons);
}
