// Tests the contracts of thread_pool.hpp, block_reader.hpp, word_table.hpp, shared_words.hpp,
// hashing.hpp and pair_table.hpp without Python. test_contracts.py builds this file with
// sanitizers. The argument is a folder for temporary files.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/hashing.hpp"
#include "base/thread_pool.hpp"
#include "check.hpp"
#include "counting/flat_words.hpp"
#include "counting/shared_words.hpp"
#include "counting/word_table.hpp"
#include "merging/pair_table.hpp"
#include "scanning/block_reader.hpp"

namespace {

using namespace cs336;

// --- thread_pool.hpp -----------------------------------------------------------------------------

void every_task_runs_once() {
    for (const int threads : {0, 1, 3, 20}) {
        for (const size_t tasks : {0, 1, 7, 1000}) {
            std::vector<std::atomic<int>> runs(tasks);
            ThreadPool pool;
            check(pool.start(threads, tasks,
                             [&](int, size_t task) {
                                 ++runs[task];
                                 return Failure();
                             }),
                  "a pool starts");
            while (!pool.wait(10)) {
            }
            pool.join();
            for (const auto& run : runs) check(run == 1, "every task runs once");
            check(pool.failure().kind == Failure::NONE, "a pool reports no failure");
        }
    }
}

void failure_of_the_first_task_is_reported() {
    for (int repeat = 0; repeat < 50; ++repeat) {
        ThreadPool pool;
        pool.start(4, 100, [](int, size_t task) -> Failure {
            if (task == 5) {
                std::this_thread::sleep_for(std::chrono::microseconds(200));
                throw std::runtime_error("five");
            }
            if (task > 5) return {Failure::NOT_UTF8, task, 0, 0, 0, ""};
            return {};
        });
        pool.join();
        check(pool.failure().kind == Failure::OTHER_KIND && pool.failure().message == "five",
              "the failure of the first task is reported");
    }
    ThreadPool pool;
    pool.start(2, 10, [](int, size_t) -> Failure { throw std::bad_alloc(); });
    pool.join();
    check(pool.failure().kind == Failure::MEMORY, "bad_alloc becomes a memory failure");
}

void cancelled_pool_starts_no_task() {
    std::atomic<int> runs{0};
    ThreadPool pool;
    pool.start(2, size_t{1} << 40, [&](int, size_t) -> Failure {
        ++runs;
        if (pool.cancelled) throw Cancelled();
        return {};
    });
    pool.cancelled = true;
    pool.join();
    const int at_end = runs;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    check(runs == at_end, "a cancelled pool starts no task");
    check(pool.failure().kind == Failure::NONE, "cancelling is not a failure");
}

// --- block_reader.hpp ----------------------------------------------------------------------------

void blocks_join_to_the_files(const std::string& folder) {
    const SpecialTokens tokens({"<|end|>", "<|end|><|end|>"});
    const std::string texts[] = {"",
                                 "one two\nthree<|end|><|end|>four  five " + std::string(300, 'x'),
                                 "\xFF\xE3\x80\x80 wide\xE3\x80\x80 spaces \xC2\xA0 and<|end|>"};
    std::vector<std::string> paths;
    std::vector<uint64_t> sizes;
    for (const std::string& text : texts) {
        paths.push_back(folder + "/" + std::to_string(paths.size()));
        sizes.push_back(text.size());
        std::ofstream(paths.back(), std::ios::binary) << text;
    }
    const std::atomic<bool> cancelled{false};
    for (const size_t block_size : {1, 2, 5, 64, 1000}) {
        const BlockReader reader(tokens, Scanner(named_program("gpt2"), SimdLevel::SCALAR), paths,
                                 sizes, block_size, SIZE_MAX);
        BlockReader::ReadState state;
        std::string found[3];
        uint64_t num_bytes = 0;
        for (size_t block = 0; block < reader.num_blocks(); ++block) {
            BlockReader::Text text;
            check(!reader.read(block, state, cancelled, text).kind, "blocks can be read");
            check(text.size == 0 || text.offset == found[text.file].size(), "blocks are adjacent");
            found[text.file].append(reinterpret_cast<char*>(text.data), text.size);
            num_bytes += text.num_bytes;
        }
        for (int i = 0; i < 3; ++i) check(found[i] == texts[i], "joined blocks equal the files");
        check(num_bytes == sizes[1] + sizes[2], "the block sizes add up to the file sizes");
    }
}

// --- word_table.hpp ------------------------------------------------------------------------------

std::map<std::string, int64_t> words_of(std::vector<WordTable*> tables) {
    FlatWords flat;
    flat.prepare(std::move(tables));
    for (size_t i = 0; i < flat.num_segments(); ++i) flat.divide_segment(i);
    for (size_t i = 0; i < flat.num_buckets(); ++i) flat.sort_bucket(i);
    flat.finish_sorting();
    std::vector<uint8_t> data(flat.num_bytes() + 1);
    std::vector<int64_t> offsets(flat.num_words() + 1), counts(flat.num_words() + 1);
    for (size_t i = 0; i < flat.num_buckets(); ++i) {
        flat.write_bucket(i, data.data(), offsets.data(), counts.data());
    }
    std::map<std::string, int64_t> words;
    for (size_t i = 0; i < flat.num_words(); ++i) {
        const std::string word(data.begin() + offsets[i], data.begin() + offsets[i + 1]);
        check(words.emplace(word, counts[i]).second, "every word is written once");
    }
    return words;
}

// A word, followed by padding, because computing its key may read beyond its end.
struct Padded {
    explicit Padded(const std::string& word) : length(word.size()), bytes(word) {
        bytes.resize(length + WORD_PADDING);
    }
    WordKey key(const WordTable& table) const {
        return table.key(reinterpret_cast<const uint8_t*>(bytes.data()), length);
    }
    size_t length;
    std::string bytes;
};

void tables_count_like_a_map(const HashSeed& seed) {
    std::map<std::string, int64_t> expected;
    std::vector<WordTable> tables;
    for (int i = 0; i < 3; ++i) tables.emplace_back(seed);
    uint64_t random = 1;
    for (int i = 0; i < 20000; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        // Words of up to 43 bytes, shorter and longer than MAX_SHORT_WORD, some of them with NUL or
        // bytes above 127.
        std::string word((random >> 33) % 40, char("abc\0\xC3"[(random >> 40) % 5]));
        if (word.size() > 5) word += std::to_string((random >> 45) % 2000);
        tables[i % 3].add(Padded(word).key(tables[0]), 1 + i % 5);
        expected[word] += 1 + i % 5;
    }
    check(words_of({&tables[0], &tables[1], &tables[2]}) == expected, "tables count like a map");
    SharedWords shared(seed);
    check(shared.empty(), "nothing is shared at first");
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 2; ++i) {
        threads.emplace_back([&, i] {
            for (int again = 0; again < 3; ++again) shared.add(tables[i], i * 40);
        });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<WordTable*> all = shared.tables();
    for (int again = 0; again < 3; ++again) all.push_back(&tables[2]);
    std::map<std::string, int64_t> thrice = expected;
    for (auto& [word, count] : thrice) count *= 3;
    check(!shared.empty() && words_of(all) == thrice, "words that threads add count like a map");
    tables[1].clear();
    check(tables[1].size() == 0 && words_of({&tables[1]}).empty(), "a cleared table is empty");
}

void cleared_table_counts_its_size() {
    const std::string text = "one two two three";
    const uint32_t ends[] = {3, 7, 11, 17};
    const Padded padded(text);
    const uint8_t* first = reinterpret_cast<const uint8_t*>(padded.bytes.data());
    WordTable table;
    for (int i = 0; i < 3; ++i) {
        table.add_batch(first, ends, 4);
        check(table.size() == 3, "a cleared table counts the same words again");
        table.clear();
    }
}

void short_keys_are_the_same_as_vectors() {
    uint8_t bytes[MAX_SHORT_WORD + WORD_PADDING];
    for (size_t i = 0; i < sizeof(bytes); ++i) bytes[i] = uint8_t(0xF1 + 7 * i);
    const HashSeed seed = hash_seed_of(5);
    for (size_t length = 0; length <= MAX_SHORT_WORD; ++length) {
        for (size_t start = 0; start < MAX_SHORT_WORD; ++start) {
            const WordKey key = make_short_key(seed, bytes + start, length);
            WordKey written = {1, 2, 3};
            make_short_key(seed, bytes + start, length, written);
            check(key.low == written.low && key.high == written.high && key.hash == written.hash,
                  "both functions compute the same key");
        }
    }
}

// --- hashing.hpp ---------------------------------------------------------------------------------

void words_of_one_hash_are_counted_in_a_table_of_their_size() {
    // An attacker who knew the seed could choose words for which a factor, and therefore the hash,
    // is 0. Such words fill one contiguous part of the table.
    const std::string start = "collides";
    HashSeed seed = hash_seed_of(7);
    std::memcpy(&seed.low, start.data(), 8);
    WordTable table(seed);
    std::map<std::string, int64_t> expected;
    for (int i = 0; i < 3000; ++i) {
        for (const std::string& word :
             {start + std::to_string(i),
              std::string(40, 'x') + start + std::to_string(100000000 + i).substr(1)}) {
            const Padded padded(word);
            check(padded.key(table).hash == 0, "the words have equal hashes");
            table.add(padded.key(table), 1 + i);
            expected[word] += 1 + i;
        }
    }
    check(table.num_slots() <= 16384, "a table grows only with the number of words");
    check(words_of({&table}) == expected, "words with equal hashes are counted");
    SharedWords shared(seed);
    shared.add(table, 5);
    check(words_of(shared.tables()) == expected, "words with equal hashes are shared");
}

void pairs_of_one_hash_are_found() {
    // With a multiplier of 2^63, the search for any pair starts at one of two slots.
    HashSeed seed = hash_seed_of(1);
    seed.multiplier = uint64_t{1} << 63;
    PairTable table(seed);
    for (uint32_t left = 0; left < 100; ++left) {
        for (uint32_t right = 0; right < 100; ++right) table.add(left, right, left + right);
    }
    bool found = true;
    for (uint32_t left = 0; left < 100; ++left) {
        for (uint32_t right = 0; right < 100; ++right) {
            const PairId id = table.find(PairTable::key_of(left, right));
            found &= id != NO_PAIR && table[id].left == left && table[id].right == right;
        }
    }
    check(found && table.find(PairTable::key_of(100, 0)) == NO_PAIR,
          "pairs with equal hashes are found");
}

void hashes_fill_tables_evenly() {
    // Words that differ in two bytes, at any offset, share slots about as often as random words.
    size_t shared = 0, most = 0, expected = 0;
    for (uint64_t number = 0; number < 5; ++number) {
        const HashSeed seed = hash_seed_of(number);
        for (size_t length = 2; length <= 40; ++length) {
            for (size_t offset = 0; offset + 2 <= length; offset += 3) {
                std::vector<uint32_t> slots(size_t{1} << 14);
                std::string word(length, 'a');
                word.resize(length + WORD_PADDING);
                for (int first = 0; first < 64; ++first) {
                    for (int second = 0; second < 64; ++second) {
                        word[offset] = char(64 + first);
                        word[offset + 1] = char(64 + second);
                        const uint8_t* bytes = reinterpret_cast<const uint8_t*>(word.data());
                        ++slots[make_key(seed, bytes, length).hash >> 50];
                    }
                }
                size_t pairs = 0;
                for (const uint32_t words : slots) pairs += size_t{words} * (words - 1) / 2;
                shared += pairs;
                most = std::max(most, pairs);
                expected += 4096 * 4096 / 2 / 16384;
            }
        }
    }
    check(shared < expected * 11 / 10, "words that differ in two bytes fill a table evenly");
    check(most < 64 * 512, "words that differ in two bytes never crowd a table");
}

}  // namespace

int main(int, char** arguments) {
    if (std::string(arguments[1]) == "--seed") {  // print the seed of this process
        const HashSeed& seed = process_hash_seed();
        std::printf("%llx %llx %llx %llx\n", (unsigned long long)seed.low,
                    (unsigned long long)seed.high, (unsigned long long)seed.block,
                    (unsigned long long)seed.multiplier);
        return 0;
    }
    every_task_runs_once();
    failure_of_the_first_task_is_reported();
    cancelled_pool_starts_no_task();
    blocks_join_to_the_files(arguments[1]);
    for (uint64_t seed = 0; seed < 4; ++seed) tables_count_like_a_map(hash_seed_of(seed));
    tables_count_like_a_map(process_hash_seed());
    cleared_table_counts_its_size();
    short_keys_are_the_same_as_vectors();
    words_of_one_hash_are_counted_in_a_table_of_their_size();
    pairs_of_one_hash_are_found();
    hashes_fill_tables_evenly();
}
