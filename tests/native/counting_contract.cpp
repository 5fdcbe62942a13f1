// What thread_pool.hpp, block_reader.hpp, special_tokens.hpp and word_table.hpp promise, without
// Python; test_contracts.py builds this with sanitizers. Its argument is a folder for files.

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

#include "block_reader.hpp"
#include "flat_words.hpp"
#include "thread_pool.hpp"
#include "word_table.hpp"

namespace {

using namespace cs336;

void check(bool holds, const char* claim) {
    if (holds) return;
    std::fprintf(stderr, "it does not hold that %s\n", claim);
    std::exit(1);
}

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
            check(pool.failure().kind == Failure::NONE, "a pool without failures has none");
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
    check(pool.failure().kind == Failure::MEMORY, "bad_alloc is a failure of memory");
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
    check(pool.failure().kind == Failure::NONE, "to be cancelled is not a failure");
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
        const BlockReader reader(tokens, true, paths, sizes, block_size);
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
        for (int i = 0; i < 3; ++i) check(found[i] == texts[i], "blocks join to the files");
        check(num_bytes == sizes[1] + sizes[2], "the bytes of all blocks are those of the files");
    }
}

void missing_and_shorter_files_are_failures(const std::string& folder) {
    const SpecialTokens tokens;
    const std::atomic<bool> cancelled{false};
    const std::string path = folder + "/short";
    std::ofstream(path, std::ios::binary) << "0123456789";
    BlockReader::ReadState state;
    BlockReader::Text text;
    const BlockReader longer(tokens, true, {path}, {20}, 100);
    const Failure shorter = longer.read(0, state, cancelled, text);
    check(shorter.kind == Failure::SHORTER && shorter.offset == 10 && shorter.expected == 20,
          "a file that became shorter is a failure");
    const BlockReader missing(tokens, true, {folder + "/missing"}, {20}, 100);
    BlockReader::ReadState other;
    const Failure system = missing.read(0, other, cancelled, text);
    check(system.kind == Failure::SYSTEM && system.code == ENOENT, "so is a missing one");
}

// --- word_table.hpp ------------------------------------------------------------------------------

std::map<std::string, int64_t> words_of(std::vector<WordTable*> tables) {
    FlatWords flat;
    flat.prepare(std::move(tables));
    for (size_t i = 0; i < flat.num_slices(); ++i) flat.merge_slice(i);
    flat.finish_merging();
    std::vector<uint8_t> data(flat.num_bytes() + 1);
    std::vector<int64_t> offsets(flat.num_words() + 1), counts(flat.num_words() + 1);
    for (size_t i = 0; i < flat.num_slices(); ++i) {
        flat.write_slice(i, data.data(), offsets.data(), counts.data());
    }
    std::map<std::string, int64_t> words;
    for (size_t i = 0; i < flat.num_words(); ++i) {
        const std::string word(data.begin() + offsets[i], data.begin() + offsets[i + 1]);
        check(words.emplace(word, counts[i]).second, "every word is written once");
    }
    return words;
}

void tables_count_like_a_map() {
    std::map<std::string, int64_t> expected;
    WordTable tables[3];
    uint64_t random = 1;
    for (int i = 0; i < 60000; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        // Words of 0 to 39 bytes, on both sides of MAX_SHORT_WORD.
        std::string word((random >> 33) % 40, char('a' + (random >> 40) % 3));
        if (word.size() > 5) word += std::to_string((random >> 45) % 2000);
        const size_t length = word.size();
        word.resize(length + WORD_PADDING);
        const uint8_t* bytes = reinterpret_cast<const uint8_t*>(word.data());
        tables[i % 3].add(make_key(bytes, length), 1 + i % 5);
        expected[word.substr(0, length)] += 1 + i % 5;
    }
    check(words_of({&tables[0], &tables[1], &tables[2]}) == expected, "tables count like a map");
    tables[1].add_to(tables[0]);
    check(words_of({&tables[0], &tables[2]}) == expected, "added tables count like a map");
    tables[1].clear();
    check(tables[1].size() == 0 && words_of({&tables[1]}).empty(), "a cleared table is empty");
}

void counts_do_not_overflow() {
    WordTable table;
    const uint8_t word[WORD_PADDING + 1] = {'w'};
    table.add(make_key(word, 1), INT64_MAX);
    try {
        table.add(make_key(word, 1), 1);
        check(false, "a count above 2^63 - 1 throws");
    } catch (const std::overflow_error&) {
    }
}

}  // namespace

int main(int, char** arguments) {
    every_task_runs_once();
    failure_of_the_first_task_is_reported();
    cancelled_pool_starts_no_task();
    blocks_join_to_the_files(arguments[1]);
    missing_and_shorter_files_are_failures(arguments[1]);
    tables_count_like_a_map();
    counts_do_not_overflow();
}
