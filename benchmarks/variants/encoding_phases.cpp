// What encoding_account.py measures: encoding as a whole, and its phases alone.
//
//     encoding_phases VOCABULARY TEXT passes N    encode N times, the first time with an empty
//     cache encoding_phases VOCABULARY TEXT rounds N    facts about the words; the time of each
//     phase
//
// VOCABULARY is an array of uint32: whether ids take 16 bits, the number of merges, the ids of the
// 256 bytes, and three ids for every merge. Output: lines of `name value`, times in nanoseconds of
// CPU time for the whole text.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "encoding/encoder.hpp"
#include "unicode/utf8.hpp"

namespace {

using namespace cs336;

constexpr size_t CACHE_BYTES = size_t{128} << 20;

std::vector<uint8_t> read_file(const char* path) {
    std::FILE* file = std::fopen(path, "rb");
    if (!file) std::exit(2);
    std::vector<uint8_t> bytes;
    uint8_t block[1 << 16];
    while (const size_t size = std::fread(block, 1, sizeof(block), file)) {
        bytes.insert(bytes.end(), block, block + size);
    }
    std::fclose(file);
    return bytes;
}

// The compiler takes what is at an address for used and changed.
void use(const void* memory) { asm volatile("" : : "g"(memory) : "memory"); }

template <class Work>
double nanoseconds(Work work) {
    const std::clock_t start = std::clock();
    work();
    return double(std::clock() - start) * (1e9 / CLOCKS_PER_SEC);
}

// Cycles in a nanosecond: a chain of operations that take one cycle each.
double gigahertz() {
    constexpr int STEPS = 1 << 22;
    uint64_t x = 1, y = 3;
    const double time = nanoseconds([&] {
        for (int i = 0; i < STEPS; ++i) {
            for (int k = 0; k < 4; ++k) {
                x ^= y;
                asm volatile("" : "+r"(x), "+r"(y));
            }
        }
    });
    return 4 * STEPS / time;
}

struct Bench {
    std::vector<uint8_t> text;
    std::vector<uint32_t> vocabulary;
    Scanner scanner{false, best_simd_level()};
    SpecialIds special{SpecialTokens({"<|endoftext|>"}), {0}};

    bool narrow() const { return vocabulary[0]; }
    const uint32_t* byte_ids() const { return &vocabulary[2]; }
    const uint32_t* merges() const { return &vocabulary[258]; }
    size_t num_merges() const { return vocabulary[1]; }

    std::unique_ptr<Encoder> encoder() const {
        return make_encoder(narrow(), byte_ids(), merges(), num_merges(), CACHE_BYTES, scanner,
                            best_simd_level());
    }

    // Call `visit(word, length)` for every word.
    template <class Visit>
    void each_word(Visit visit) const {
        scanner.scan(
            text.data(), text.size(),
            [&](const uint8_t* first, const uint32_t* ends, size_t count) {
                for (size_t i = 0; i < count; ++i) {
                    const uint32_t start = i ? ends[i - 1] : 0;
                    visit(first + start, size_t(ends[i] - start));
                }
            },
            visit);
    }

    void find_special() const {
        Occurrences occurrences(special.tokens, text.data(), text.size());
        for (size_t start = 0;;) {
            const Occurrence found = occurrences.next(start);
            if (!found.length) break;
            start = found.offset + found.length;
        }
    }

    void scan() const {
        scanner.scan(
            text.data(), text.size(),
            [](const uint8_t*, const uint32_t* ends, size_t) { use(ends); },
            [](const uint8_t*, size_t) {});
    }

    // Scan, and make the keys of the words, as the encoder does.
    void make_keys() const {
        WordKey keys[128];
        const HashSeed seed = process_hash_seed();
        scanner.scan(
            text.data(), text.size() - WORD_PADDING,
            [&](const uint8_t* first, const uint32_t* ends, size_t count) {
                uint32_t start = 0;
                for (size_t i = 0; i < count; ++i) {
                    const uint32_t end = ends[i];
                    if (end - start <= MAX_SHORT_WORD) {
                        make_short_key(seed, first + start, end - start, keys[i % 128]);
                    } else {
                        keys[i % 128] = make_long_key(seed, first + start, end - start);
                    }
                    start = end;
                    if (i % 128 == 127) use(keys);
                }
                use(keys);
            },
            [](const uint8_t*, size_t) {});
    }
};

// Facts about the words, and the time that it takes to merge the distinct ones.
template <class Id>
class Words {
  public:
    explicit Words(const Bench& bench)
        : merges_(bench.byte_ids(), bench.merges(), bench.num_merges()),
          merger_(merges_, best_simd_level(), cancelled_),
          cache_(std::make_shared<CacheBudget>(CACHE_BYTES)),
          ids_(bench.text.size() + OUTPUT_SLACK) {
        std::unordered_set<std::string_view> seen;
        bench.each_word([&](const uint8_t* word, size_t length) {
            const std::string_view view(reinterpret_cast<const char*>(word), length);
            if (seen.insert(view).second) distinct_.push_back(view);
            const WordKey key = make_key(cache_.seed(), padded(word, length), length);
            if (cache_.find(key, word)) return;
            Id* const end = merger_.merge(word, length, ids_.data());
            cache_.insert(key, word, ids_.data(), end - ids_.data());
        });
        size_t words = 0, is_long = 0, far = 0, displaced = 0;
        bench.each_word([&](const uint8_t* word, size_t length) {
            const WordKey key = make_key(cache_.seed(), padded(word, length), length);
            const auto* const entry = cache_.find(key, word);
            ++words;
            if (key.is_long()) {
                ++is_long;
            } else if (entry && entry->is_far()) {
                ++far;
            } else if (!cache_.view().at(key).is_near(key)) {
                ++displaced;
            }
        });
        std::printf("words %zu\ndistinct %zu\nlong %zu\nmany_ids %zu\ndisplaced %zu\n", words,
                    distinct_.size(), is_long, far, displaced);
        std::printf("table_bytes %zu\n", table_bytes());
    }

    void merge() {
        for (const std::string_view word : distinct_) {
            use(merger_.merge(reinterpret_cast<const uint8_t*>(word.data()), word.size(),
                              ids_.data()));
        }
    }

  private:
    // A word with readable bytes behind it.
    const uint8_t* padded(const uint8_t* word, size_t length) {
        copy_.assign(word, word + length);
        copy_.resize(length + WORD_PADDING);
        return copy_.data();
    }

    size_t table_bytes() const {
        size_t entries = 1 << 12;
        while (entries < 2 * distinct_.size()) entries *= entries < 1 << 20 ? 4 : 2;
        return 32 * entries;
    }

    std::atomic<bool> cancelled_{false};
    const MergeTable<Id> merges_;
    WordMerger<Id> merger_;
    WordCache<Id> cache_;
    std::vector<Id> ids_;
    std::vector<std::string_view> distinct_;
    std::vector<uint8_t> copy_;
};

template <class Id>
void run_rounds(const Bench& bench, int rounds) {
    Words<Id> words(bench);
    const std::unique_ptr<Encoder> encoder = bench.encoder();
    std::vector<Id> ids(bench.text.size() + OUTPUT_SLACK);
    const auto encode = [&](EncodingWorker& worker) {
        return worker.encode(bench.text.data(), bench.text.size(), bench.special, ids.data(),
                             ABSENT_ID, nullptr);
    };
    const auto warm = encoder->make_worker(CACHE_BYTES);
    std::printf("ids %zu\n", encode(*warm));
    for (int round = 0; round < rounds; ++round) {
        const auto show = [](const char* name, double value) {
            std::printf("%s %.6g\n", name, value);
        };
        show("gigahertz", gigahertz());
        show("utf8", nanoseconds([&] {
                 if (first_invalid_utf8(bench.text.data(), bench.text.size()) < bench.text.size()) {
                     std::exit(3);
                 }
             }));
        show("special", nanoseconds([&] { bench.find_special(); }));
        show("scan", nanoseconds([&] { bench.scan(); }));
        show("keys", nanoseconds([&] { bench.make_keys(); }));
        show("warm", nanoseconds([&] { encode(*warm); }));
        const auto cold = encoder->make_worker(CACHE_BYTES);
        show("cold", nanoseconds([&] { encode(*cold); }));
        show("merge", nanoseconds([&] { words.merge(); }));
    }
}

void run_passes(const Bench& bench, int passes) {
    const std::unique_ptr<Encoder> encoder = bench.encoder();
    const auto worker = encoder->make_worker(CACHE_BYTES);
    std::vector<uint8_t> ids((bench.text.size() + OUTPUT_SLACK) * encoder->id_size());
    for (int pass = 0; pass < passes; ++pass) {
        if (first_invalid_utf8(bench.text.data(), bench.text.size()) < bench.text.size()) {
            std::exit(3);
        }
        worker->encode(bench.text.data(), bench.text.size(), bench.special, ids.data(), ABSENT_ID,
                       nullptr);
    }
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 5) return 2;
    Bench bench;
    const std::vector<uint8_t> bytes = read_file(arguments[1]);
    bench.vocabulary.resize(bytes.size() / sizeof(uint32_t));
    std::memcpy(bench.vocabulary.data(), bytes.data(), bytes.size());
    bench.text = read_file(arguments[2]);
    if (bench.text.size() < 4096) return 2;
    const int number = std::atoi(arguments[4]);
    if (!std::strcmp(arguments[3], "passes")) {
        run_passes(bench, number);
    } else if (bench.narrow()) {
        run_rounds<uint16_t>(bench, number);
    } else {
        run_rounds<uint32_t>(bench, number);
    }
}
