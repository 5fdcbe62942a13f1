// Trains on a long word, or merges it: `long_words WHAT UNIT LENGTH`. The row
// `instructions-of-long-words` of tests/campaign counts the instructions, which depend neither on
// caches nor on other programs.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "check.hpp"
#include "merging/flat_merge_loop.hpp"
#include "word_merging/dropout_merger.hpp"
#include "word_merging/kept_merges.hpp"
#include "word_merging/long_word_merger.hpp"
#include "word_merging/merge_table.hpp"

using namespace cs336;

namespace {

bool keep_going() { return true; }

void train(const std::string& word) {
    MergeOptions options;
    options.num_merges = 50;
    options.min_frequency = 1;
    options.keep_going = keep_going;
    options.num_threads = 1;
    const int64_t offsets[] = {0, int64_t(word.size())}, counts[] = {1};
    const auto loop = make_merge_loop(reinterpret_cast<const uint8_t*>(word.data()), offsets,
                                      counts, 1, options);
    while (loop->run(std::numeric_limits<double>::max())) {
    }
    check(loop->merges.size() > 10, "pairs are merged");
}

void merge(const std::string& word, bool with_dropout) {
    std::vector<uint32_t> symbols(256);
    std::iota(symbols.begin(), symbols.end(), 0);
    const std::vector<uint32_t> merges = {0xF0, 0x9F, 256, 0xE2, 0x80, 257, 257, 0x8D, 258,
                                          256,  0x91, 259, 'a',  'a',  260, 260, 260,  261};
    const MergeTable<uint16_t> table(symbols.data(), merges.data(), merges.size() / 3);
    const std::atomic<bool> is_cancelled{false};
    std::vector<uint16_t> ids(word.size() + 64);
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(word.data());
    const uint16_t* end;
    if (with_dropout) {
        std::vector<uint64_t> shares(MAX_GAP + 1);  // every tenth merge is left out
        double share = 1;
        for (uint64_t& kept : shares) {
            kept = share == 1 ? UINT64_MAX : uint64_t(share * 18446744073709551616.0);
            share *= 0.9;
        }
        const KeptMerges kept({1, shares.data(), false}, 0);
        DropoutMerger<uint16_t> merger(table, SimdLevel::SCALAR, is_cancelled);
        end = merger.merge(bytes, word.size(), kept, ids.data());
    } else {
        LongWordMerger<uint16_t> merger(table, is_cancelled);
        end = merger.merge(bytes, word.size(), ids.data());
    }
    check(end > ids.data(), "the word has ids");
}

}  // namespace

int main(int, char** arguments) {
    const std::string what = arguments[1], unit = arguments[2];
    const size_t length = std::strtoull(arguments[3], nullptr, 10);
    std::string word;
    while (word.size() < length) word += unit;
    word.resize(length);
    what == "train" ? train(word) : merge(word, what == "merge with dropout");
}
