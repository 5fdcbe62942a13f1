// Tests the encoder's guarantees that cannot be observed from Python, and compares its tables and
// its merging of word groups with simple implementations. test_contracts.py builds this file with
// sanitizers.

#if defined(__linux__)
#include <dlfcn.h>
#include <pthread.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/hashing.hpp"
#include "check.hpp"
#include "encoding/batch_encoder.hpp"
#include "encoding/decoder.hpp"
#include "encoding/encoder.hpp"
#include "encoding/superword_encoder.hpp"
#include "encoding/text_cutter.hpp"
#include "unicode/text_view.hpp"
#include "word_merging/known_words.hpp"
#include "word_merging/pair_ranks.hpp"
#include "word_merging/self_made_tokens.hpp"
#include "word_merging/word_group_merger.hpp"
#include "word_merging/words.hpp"

// The number of threads that can still be started on Linux; -1 if there is no limit.
static int threads_left = -1;

#if defined(__linux__)
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    if (threads_left == 0) return EAGAIN;
    if (threads_left > 0) --threads_left;
    return create(thread, attributes, run, argument);
}
#endif

namespace {

using namespace cs336;

const uint8_t* bytes_of(const std::string& text) {
    return reinterpret_cast<const uint8_t*>(text.data());
}

TextSpan span_of(const std::string& text) { return {bytes_of(text), text.size()}; }

std::unique_ptr<Encoder> encoder_of_bytes(size_t cache_bytes) {
    uint32_t byte_ids[256];
    for (uint32_t byte = 0; byte < 256; ++byte) byte_ids[byte] = byte;
    return make_encoder(true, byte_ids, nullptr, std::vector<Join>(), cache_bytes,
                        Scanner(named_program("gpt2"), SimdLevel::SCALAR), SimdLevel::SCALAR);
}

void workers_may_outlive_their_encoder() {
    auto encoder = encoder_of_bytes(1 << 20);
    auto worker = encoder->make_worker(0);
    const std::string text = "some words and an extraordinarily long one";
    uint16_t ids[64];
    const SpecialIds special;
    worker->encode(bytes_of(text), text.size(), special, ids, NO_ID, nullptr);
    encoder.reset();
    worker.reset();  // returns the worker's memory to the shared budget
}

void single_bytes_have_the_ids_of_their_tokens() {
    uint32_t byte_ids[256];
    for (uint32_t byte = 0; byte < 256; ++byte) byte_ids[byte] = 999 - byte;
    const auto encoder =
        make_encoder(true, byte_ids, nullptr, std::vector<Join>(), 0,
                     Scanner(named_program("gpt2"), SimdLevel::SCALAR), SimdLevel::SCALAR);
    const auto worker = encoder->make_worker(0);
    const uint8_t bytes[] = {0xFF, 'a', 0};
    std::vector<uint16_t> ids(3);
    worker->encode_bytes(bytes, 3, ids.data());
    check(ids == std::vector<uint16_t>({744, 902, 999}), "bytes have the ids of their tokens");
    worker->cancelled = true;
    bool threw = false;
    try {
        worker->encode_bytes(bytes, 1, ids.data());
    } catch (const Cancelled&) {
        threw = true;
    }
    check(threw, "a cancelled worker does not encode bytes");
}

void a_long_word_without_room_does_not_clear_the_cache() {
    // The table uses the whole budget.
    const auto budget = std::make_shared<CacheBudget>(size_t{1} << 17);
    WordCache<uint16_t> cache(budget);
    const std::string near = "near", far = "a word of more than 15 bytes";
    const uint16_t ids[3] = {1, 2, 3};
    const auto key_of = [&](const std::string& word) {
        return cache.key(bytes_of(word), word.size(), bytes_of(word) + word.size());
    };
    cache.insert(key_of(near), bytes_of(near), ids, 3);
    cache.insert(key_of(far), bytes_of(far), ids, 3);
    check(cache.find(key_of(near), bytes_of(near)), "the short word stays in the cache");
    check(!cache.find(key_of(far), bytes_of(far)), "the long word is not cached");
    check(!budget->take(1), "the budget is not exceeded");
}

// Encode three texts of 70,000 bytes, one per group. While the threads are running, they may write
// at most `room` ids to the array.
void encode_with_room(size_t room, bool without_threads) {
    const auto encoder = encoder_of_bytes(1 << 20);
    const auto first = encoder->make_worker(0), second = encoder->make_worker(0);
    const std::vector<EncodingWorker*> workers = {first.get(), second.get()};
    std::string text;
    for (int i = 0; i < 10000; ++i) text += "abc def";
    const std::vector<TextView> texts(3, {text.data(), text.size(), TextView::UTF8});
    const SpecialIds special;
    BatchEncoder batch(workers, 2, texts, special);
    check(batch.num_groups() == 3, "a text of this length is a group");
    threads_left = without_threads ? 1 : -1;
    batch.start();
    std::vector<uint16_t> ids(3 * text.size());
    batch.write_to(reinterpret_cast<uint8_t*>(ids.data()), room);
    while (!batch.wait(50)) {
    }
    batch.join();
    check(batch.failure().kind == Failure::NONE, "one thread is enough");
    check(batch.estimate(batch.num_groups() - 1) == ids.size(),
          "after the last group, the estimate is exact");
    for (size_t i = room / text.size() * text.size(); i < ids.size(); ++i) {
        check(ids[i] == 0, "a text is not written if there is no room for it");
    }
    batch.write_to(reinterpret_cast<uint8_t*>(ids.data()), ids.size());
    threads_left = -1;
    for (size_t i = 0; i < ids.size(); ++i) {
        check(ids[i] == uint8_t(text[i % text.size()]), "ids are in the order of the texts");
    }
}

void a_batch_is_complete_with_fewer_threads_or_none() { encode_with_room(0, true); }

void ids_are_written_as_far_as_there_is_room() {
    for (const size_t room : {0, 69999, 70000, 209999, 210000}) encode_with_room(room, false);
}

void hostile_words_are_cached_as_others() {
    // All these words have the same hash for the seed below, because their first factor is 0.
    const std::string start = "collides";
    HashSeed seed = hash_seed_of(7);
    std::memcpy(&seed.low, start.data(), 8);
    const auto budget = std::make_shared<CacheBudget>(size_t{1} << 20);
    WordCache<uint16_t> cache(budget, seed);
    std::vector<std::string> words;
    for (int i = 0; i < 2000; ++i) {
        words.push_back(start + std::to_string(i));
        words.push_back(std::string(30, 'x') + start + std::to_string(100000000 + i).substr(1));
    }
    for (size_t i = 0; i < words.size(); ++i) {
        const uint8_t* bytes = bytes_of(words[i]);
        const uint16_t id = uint16_t(i);
        const WordKey key = cache.key(bytes, words[i].size(), bytes + words[i].size());
        check(key.hash == 0, "the words have the same hash");
        cache.insert(key, bytes, &id, 1);
    }
    for (size_t i = 0; i < words.size(); ++i) {
        const uint8_t* bytes = bytes_of(words[i]);
        const WordKey key = cache.key(bytes, words[i].size(), bytes + words[i].size());
        const auto* entry = cache.find(key, bytes);
        check(entry && *WordCache<uint16_t>::ids(*entry, key) == i,
              "words with equal hashes are found");
    }
}

std::vector<std::string> segments_of(const JoinFilter& joins, const std::string& word) {
    std::vector<std::string> segments;
    const auto* bytes = bytes_of(word);
    SegmentCutter cutter(joins, bytes, word.size());
    const uint8_t* first;
    uint32_t ends[SegmentCutter::CAPACITY];
    while (const size_t count = cutter.fill(first, ends)) {
        for (size_t i = 0, start = 0; i < count; start = ends[i++]) {
            segments.emplace_back(reinterpret_cast<const char*>(first) + start, ends[i] - start);
        }
    }
    return segments;
}

void only_bytes_that_merges_join_stay_together() {
    const std::string a = "a", aaaaa = "aaaaa", b = "b";
    const JoinFilter joins({join_of(span_of(a), span_of(a)), join_of(span_of(aaaaa), span_of(b))},
                           hash_seed_of(7).multiplier);
    check(segments_of(joins, "aaaaab").size() == 1, "applicable merges join bytes");
    check(segments_of(joins, "baab").size() == 3, "other bytes are not joined");
}

void parts_fit_into_their_array() {
    const JoinFilter joins({}, process_hash_seed().multiplier);
    std::string text;
    for (size_t length = 0; length <= 3 * LineCutter::CAPACITY; ++length) {
        LineCutter cutter(joins, best_simd_level(), bytes_of(text), length);
        size_t num_parts = 0;
        for (;;) {
            std::vector<uint32_t> ends(LineCutter::CAPACITY);  // sanitizers see its end
            const uint8_t* first;
            const size_t count = cutter.fill(first, ends.data());
            check(count <= ends.size(), "the parts fit into their array");
            if (!count) break;
            num_parts += count;
        }
        check(num_parts == length, "every byte is a part");
        text += "<m"[length % 2];
    }
}

void pieces_of_lines_fit_into_their_arrays() {
    uint32_t byte_ids[256];
    for (uint32_t byte = 0; byte < 256; ++byte) byte_ids[byte] = byte;
    const uint32_t merges[] = {'a', 'a', 256, '.', ' ', 257};
    const std::string a = "a", stop = ".", space = " ";
    const std::vector<Join> joins = {join_of(span_of(a), span_of(a)),
                                     join_of(span_of(stop), span_of(space))};
    const auto encoder_with = [&](size_t cache_bytes) {
        return make_encoder(true, byte_ids, merges, joins, cache_bytes,
                            Scanner(named_program("gpt2"), SimdLevel::SCALAR), SimdLevel::SCALAR);
    };
    const auto cached = encoder_with(1 << 20), uncached = encoder_with(0);
    const auto with_cache = cached->make_worker(0), without = uncached->make_worker(0);
    const SpecialIds special = {SpecialTokens({"<|x|>"}), {300}};
    std::mt19937 random(12);
    for (int round = 0; round < 60; ++round) {
        // Mostly, one byte is a pre-token, and pieces are as long as possible or a little longer.
        std::string line;
        const size_t length = round % 2 ? 55 + random() % 15 : 120 + random() % 15;
        while (line.size() < length) {
            line += round % 2 ? std::string(1, "1a.\n "[random() % 5]) : std::string(40, 'a') + "1";
        }
        line.resize(length);
        line += round % 3 ? "\n" : "<|x|>";
        std::string text;
        for (int i = 0; i < 70; ++i) text += line;
        for (int i = 0; i < 4; ++i) {
            std::vector<uint16_t> ids(text.size() + OUTPUT_SLACK), expected(ids);
            const std::vector<uint8_t> bytes(text.begin(), text.end());  // sanitizers see its end
            ids.resize(with_cache->encode(bytes.data(), bytes.size(), special, ids.data(), NO_ID,
                                          nullptr));
            expected.resize(without->encode(bytes.data(), bytes.size(), special, expected.data(),
                                            NO_ID, nullptr));
            check(ids == expected, "pieces from the cache have the ids of their lines");
        }
    }
}

void segments_merge_as_their_word() {
    // Random tokens, composed of characters of one to four bytes, with merges in any order.
    const std::vector<std::string> characters = {
        "a", "b", "\xc3\xa9", "\xe4\xb8\xad", "\xe4\xb8\xbb", "\xf0\x9f\x98\x80"};
    std::mt19937 random(11);
    size_t num_words = 0, num_segments = 0;
    for (int round = 0; round < 200; ++round) {
        uint32_t byte_ids[256];
        std::vector<std::string> tokens;
        for (uint32_t byte = 0; byte < 256; ++byte) {
            byte_ids[byte] = byte;
            tokens.emplace_back(1, char(byte));
        }
        std::vector<std::array<uint32_t, 3>> learned;
        const auto learn = [&](uint32_t left, uint32_t right) {
            const std::string token = tokens[left] + tokens[right];
            if (token.size() > 12) return;
            if (std::find(tokens.begin(), tokens.end(), token) != tokens.end()) return;
            learned.push_back({left, right, uint32_t(tokens.size())});
            tokens.push_back(token);
        };
        for (const std::string& character : characters) {  // merge most bytes of most characters
            for (size_t i = 1; i < character.size() && random() % 8; ++i) {
                const auto find = [&](const std::string& token) {
                    return uint32_t(std::find(tokens.begin(), tokens.end(), token) -
                                    tokens.begin());
                };
                learn(find(character.substr(0, i)), find(character.substr(i, 1)));
            }
        }
        const uint32_t some[] = {'a', 'b', 0xA9, 0xE4, 0xAD};
        for (int i = 0; i < 40; ++i) {
            const auto draw = [&] {
                const size_t known = tokens.size() - 256;
                return random() % 4 && known ? uint32_t(256 + random() % known)
                                             : some[random() % 5];
            };
            learn(draw(), draw());
        }
        if (round % 2) std::shuffle(learned.begin(), learned.end(), random);
        std::vector<uint32_t> merges;
        std::vector<Join> joins;
        for (const auto& merge : learned) {
            merges.insert(merges.end(), merge.begin(), merge.end());
            joins.push_back(join_of(span_of(tokens[merge[0]]), span_of(tokens[merge[1]])));
        }
        const auto encoder =
            make_encoder(true, byte_ids, merges.data(), joins, 1 << 20,
                         Scanner(named_program("gpt2"), SimdLevel::SCALAR), SimdLevel::SCALAR);
        const JoinFilter filter(joins, hash_seed_of(7).multiplier);
        const auto worker = encoder->make_worker(0);
        const MergeTable<uint16_t> table(byte_ids, merges.data(), learned.size());
        const std::atomic<bool> cancelled{false};
        WordMerger<uint16_t> merger(table, SimdLevel::SCALAR, cancelled);
        for (int i = 0; i < 200; ++i) {
            std::string word;
            for (size_t n = 1 + random() % (i % 20 ? 20 : 300); n; --n) {
                word += characters[random() % characters.size()];
            }
            const auto* bytes = bytes_of(word);
            std::vector<uint16_t> whole(word.size() + OUTPUT_SLACK), cut = whole;
            whole.resize(merger.merge(bytes, word.size(), whole.data()) - whole.data());
            cut.resize(worker->encode_word(bytes, word.size(), bytes + word.size(), cut.data()));
            check(cut == whole, "segments merge like their word");
            num_segments += segments_of(filter, word).size();
            ++num_words;
        }
    }
    check(num_segments > 2 * num_words, "words are cut into segments");
}

// Append the UTF-8 encoding of a code point, computed from its definition.
void append_utf8(std::vector<uint8_t>& utf8, uint32_t c) {
    const int length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (length == 1) {
        utf8.push_back(uint8_t(c));
        return;
    }
    utf8.push_back(uint8_t((0xF00 >> length) | c >> 6 * (length - 1)));
    for (int i = length - 2; i >= 0; --i) utf8.push_back(uint8_t(0x80 | (c >> 6 * i & 0x3F)));
}

template <class Unit>
void utf8_is_written_without_a_byte_beyond_it(TextView::Kind kind,
                                              const std::vector<uint32_t>& characters) {
    uint32_t random = 1;
    for (size_t length = 0; length < 300; ++length) {
        // The buffer is exactly as large as the text, so that the sanitizer detects overruns.
        std::unique_ptr<Unit[]> units(new Unit[length]);
        std::vector<uint8_t> expected;
        for (size_t i = 0; i < length; ++i) {
            random = random * 1664525 + 1013904223;
            // Repeat each character 20 times, or choose every character at random.
            const size_t chosen = length % 3 ? random >> 16 : i / 20;
            units[i] = Unit(characters[chosen % characters.size()]);
            append_utf8(expected, units[i]);
        }
        const TextView view = {units.get(), length, kind};
        check(utf8_size(view) == expected.size(), "the UTF-8 size is exact");
        check(utf8_bound(view) >= expected.size(), "the bound is not too low");
        std::unique_ptr<uint8_t[]> out(new uint8_t[expected.size()]);
        check(write_utf8(view, out.get()) == out.get() + expected.size(),
              "the end of the UTF-8 is returned");
        check(std::equal(expected.begin(), expected.end(), out.get()), "the UTF-8 is correct");
    }
}

void every_str_is_written_as_utf8() {
    utf8_is_written_without_a_byte_beyond_it<uint8_t>(TextView::LATIN1, {'a', 0x7F, 0x80, 0xFF});
    utf8_is_written_without_a_byte_beyond_it<uint16_t>(
        TextView::UCS2, {'a', 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF});
    utf8_is_written_without_a_byte_beyond_it<uint32_t>(
        TextView::UCS4, {'a', 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF});
}

void a_lone_surrogate_is_found_wherever_it_is() {
    for (const uint16_t surrogate : {0xD800, 0xDBFF, 0xDC00, 0xDFFF}) {
        for (const uint16_t other : {0x61, 0xE9, 0x6F22}) {
            for (size_t at = 0; at < 60; ++at) {
                std::vector<uint16_t> narrow(60, other);
                std::vector<uint32_t> wide(60, other);
                narrow[at] = surrogate;
                wide[at] = surrogate;
                std::vector<uint8_t> out(180);
                const TextView views[] = {{narrow.data(), 60, TextView::UCS2},
                                          {wide.data(), 60, TextView::UCS4}};
                for (const TextView& view : views) {
                    check(!write_utf8(view, out.data()), "a surrogate is found");
                }
            }
        }
    }
}

void a_text_is_cut_at_the_first_safe_cuts() {
    const std::string words[] = {"word ", "\xC3\xA9t\xC3\xA9 ", "\xE6\xBC\xA2\xE5\xAD\x97\n",
                                 "<|end|>"};
    const SpecialTokens tokens(std::vector<std::string>{"<|end|>"});
    const Scanner scanner(named_program("gpt2"), SimdLevel::SCALAR);
    const SafeCuts cuts(tokens, scanner);
    uint32_t random = 1;
    for (const size_t span_size : {1, 10, 100, 5000}) {
        // In the middle and at the end, 10,000 characters contain no safe cut.
        std::string utf8;
        for (int i = 0; i < 4000; ++i) {
            random = random * 1664525 + 1013904223;
            utf8 += words[random >> 30];
            if (i % 2000 == 1999) utf8 += std::string(10000, i < 2000 ? '!' : 'x');
        }
        std::vector<uint16_t> units;
        std::vector<size_t> offsets;  // of the units in the UTF-8
        for (size_t i = 0; i < utf8.size();) {
            const auto byte = [&](size_t at) { return uint32_t(uint8_t(utf8[i + at])); };
            const int length = byte(0) < 0x80 ? 1 : byte(0) < 0xE0 ? 2 : 3;
            offsets.push_back(i);
            units.push_back(uint16_t(length == 1   ? byte(0)
                                     : length == 2 ? (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F)
                                                   : (byte(0) & 0xF) << 12 | (byte(1) & 0x3F) << 6 |
                                                         (byte(2) & 0x3F)));
            i += length;
        }
        offsets.push_back(utf8.size());
        size_t start = 0;
        for (const TextView& span :
             cut_text({units.data(), units.size(), TextView::UCS2}, span_size, tokens, scanner)) {
            check(span.data == units.data() + start, "spans are adjacent");
            const size_t from = offsets[std::min(start + span_size, units.size())];
            start += span.length;
            check(offsets[start] == cuts.first(bytes_of(utf8), utf8.size(), from, utf8.size()),
                  "a span ends at the first safe cut");
        }
        check(start == units.size(), "spans cover the text");
    }
}

template <class Id>
void ids_may_change_while_they_are_decoded() {
    // Id 0 has no token, id 1 has a one-byte token, and id 2 has a long token. There are no others.
    const std::string token(5000, 'x');
    const int64_t offsets[] = {0, 0, 1, 5001};
    const std::string data = "y" + token;
    const Decoder decoder(bytes_of(data), offsets, 3);
    std::vector<Id> ids(20000, 1);
    std::vector<uint32_t> copies(ids.size());
    std::atomic<bool> done{false};
    std::thread other([&] {
        for (size_t i = 0; !done; i = (i + 1) % ids.size()) {
            __atomic_store_n(&ids[i], Id(i % 3000 ? 2 : -1), __ATOMIC_RELAXED);
            __atomic_store_n(&ids[i], Id(1), __ATOMIC_RELAXED);
        }
    });
    for (int repeat = 0; repeat < 200; ++repeat) {
        Decoding decoding(decoder, ids.size());
        if (decoding.append(ids.data(), ids.size(), copies.data())) {
            for (size_t i = 0; i < decoding.size(); ++i) {
                check(decoding.data()[i] == 'x' || decoding.data()[i] == 'y',
                      "the result contains only bytes of tokens");
            }
        }
    }
    done = true;
    other.join();
}

template <class Pair>
void ranks_are_those_of(const std::vector<Pair>& pairs, const std::vector<Pair>& others,
                        uint64_t seed) {
    const PairRanks<Pair> table(pairs, hash_seed_of(seed));
    const auto rank = [&](Pair pair) { return table.rank(pair, table.slot(pair)); };
    std::map<Pair, uint32_t> expected;
    for (size_t i = 0; i < pairs.size(); ++i) expected.emplace(pairs[i], uint32_t(i));
    for (const Pair pair : pairs) check(rank(pair) == expected[pair], "a pair has its first rank");
    for (const Pair pair : others) {
        check(expected.count(pair) || rank(pair) == PairRanks<Pair>::NO_RANK,
              "another pair has no rank");
    }
}

template <class Pair>
void pairs_have_their_first_ranks() {
    const Pair last = Pair(~Pair{0});
    std::mt19937_64 random(3);
    for (uint64_t seed = 0; seed < 5; ++seed) {
        const std::vector<Pair> few = {0, last, 1, 0, last - 1, last, 0};
        for (size_t size = 0; size <= few.size(); ++size) {
            ranks_are_those_of({few.begin(), few.begin() + size}, few, seed);
        }
        // Random pairs, pairs of consecutive ids, and many repeated pairs.
        std::vector<Pair> drawn, steps, equal, others;
        for (Pair i = 0; i < 3000; ++i) {
            drawn.push_back(Pair(random()));
            steps.push_back(Pair(i << (4 * sizeof(Pair))) | 7);
            equal.push_back(Pair(random() % 5));
            others.push_back(Pair(random()));
            others.push_back(i);
        }
        ranks_are_those_of(drawn, others, seed);
        ranks_are_those_of(steps, others, seed);
        ranks_are_those_of(equal, others, seed);
    }
}

struct Vocabulary {
    uint32_t byte_ids[256];
    std::vector<uint32_t> merges;
    std::vector<Join> joins;  // of the merges, in any order
};

// Random merges of the letters a to d. In half of the vocabularies, ids are not in the order of
// ranks. In a third of the vocabularies, a merge may precede the merges that produce its tokens.
Vocabulary random_vocabulary(std::mt19937& random, size_t num_merges) {
    Vocabulary made;
    const bool shuffled = random() % 2;
    std::vector<uint32_t> ids(256 + num_merges);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = uint32_t(i);
    if (shuffled) std::shuffle(ids.begin(), ids.end(), random);
    std::copy(ids.begin(), ids.begin() + 256, made.byte_ids);
    std::vector<std::string> tokens = {"a", "b", "c", "d", " "};
    std::vector<uint32_t> known;
    for (const std::string& token : tokens) known.push_back(ids[uint8_t(token[0])]);
    std::set<std::string> all(tokens.begin(), tokens.end());
    while (made.merges.size() < 3 * num_merges) {
        const size_t left = random() % known.size(), right = random() % known.size();
        const std::string token = tokens[left] + tokens[right];
        if (!all.insert(token).second) continue;
        const uint32_t id = ids[256 + made.merges.size() / 3];
        made.merges.insert(made.merges.end(), {known[left], known[right], id});
        made.joins.push_back(join_of(span_of(tokens[left]), span_of(tokens[right])));
        tokens.push_back(token);
        known.push_back(id);
    }
    if (random() % 3 == 0) {
        std::vector<std::array<uint32_t, 3>> rows(num_merges);
        for (size_t i = 0; i < made.merges.size(); ++i) rows[i / 3][i % 3] = made.merges[i];
        std::shuffle(rows.begin(), rows.end(), random);
        for (size_t i = 0; i < made.merges.size(); ++i) made.merges[i] = rows[i / 3][i % 3];
    }
    return made;
}

// Return the ids of a word by definition: repeatedly merge the leftmost pair with the lowest rank.
template <class Id>
std::vector<Id> merged(const Vocabulary& vocabulary, const std::string& word) {
    std::vector<Id> ids;
    for (const char byte : word) ids.push_back(Id(vocabulary.byte_ids[uint8_t(byte)]));
    std::map<std::pair<Id, Id>, size_t> ranks;
    for (size_t i = 0; i < vocabulary.merges.size(); i += 3) {
        ranks[{Id(vocabulary.merges[i]), Id(vocabulary.merges[i + 1])}] = i / 3;
    }
    for (;;) {
        size_t lowest = ranks.size(), position = 0;
        for (size_t k = 0; k + 1 < ids.size(); ++k) {
            const auto found = ranks.find({ids[k], ids[k + 1]});
            if (found != ranks.end() && found->second < lowest) {
                lowest = found->second;
                position = k;
            }
        }
        if (lowest == ranks.size()) return ids;
        ids[position] = Id(vocabulary.merges[3 * lowest + 2]);
        ids.erase(ids.begin() + position + 1);
    }
}

std::string random_word(std::mt19937& random, size_t length) {
    std::string word;
    while (word.size() < length) word += "abcd"[random() % 4];
    return word;
}

template <class Id>
void words_of_a_group_merge_as_alone() {
    using Group = WordGroupMerger<Id>;
    std::mt19937 random(5);
    for (int round = 0; round < 40; ++round) {
        const Vocabulary vocabulary = random_vocabulary(random, round % 4 ? 60 : round);
        const MergeTable<Id> table(vocabulary.byte_ids, vocabulary.merges.data(),
                                   vocabulary.merges.size() / 3);
        for (int level = 0; level < NUM_SIMD_LEVELS; ++level) {
            if (!has_simd_level(SimdLevel(level))) continue;
            const auto group = std::make_unique<Group>(table, SimdLevel(level));
            for (size_t size : {size_t{0}, size_t{1}, size_t{2}, size_t{13}, Group::CAPACITY}) {
                // The buffers are as large as the words, so that the sanitizer detects overruns.
                std::vector<std::unique_ptr<uint8_t[]>> memory;
                std::vector<std::string> words;
                group->clear();
                for (size_t i = 0; i < size; ++i) {
                    words.push_back(random_word(random, 1 + random() % Group::MAX_LENGTH));
                    memory.emplace_back(new uint8_t[words[i].size()]);
                    std::copy(words[i].begin(), words[i].end(), memory[i].get());
                    group->add(memory[i].get(), words[i].size());
                }
                group->merge();
                for (size_t i = 0; i < size; ++i) {
                    std::vector<Id> ids(Group::MAX_LENGTH);
                    ids.resize(group->ids(i, ids.data()) - ids.data());
                    check(ids == merged<Id>(vocabulary, words[i]), "a group merges like its words");
                }
            }
        }
    }
}

// The text has words of many lengths. Most are new, some are long, and some are not ASCII.
void a_text_has_the_ids_of_its_words(bool narrow, size_t cache_bytes) {
    std::mt19937 random(7);
    for (int round = 0; round < 6; ++round) {
        const Vocabulary vocabulary = random_vocabulary(random, 60);
        const auto encoder = make_encoder(
            narrow, vocabulary.byte_ids, vocabulary.merges.data(), vocabulary.joins, cache_bytes,
            Scanner(named_program("gpt2"), SimdLevel::SCALAR), SimdLevel::SCALAR);
        const auto worker = encoder->make_worker(0);
        const auto alone = encoder->make_worker(0);
        const SpecialIds special;
        for (const size_t num_words : {1, 2, 63, 64, 65, 129, 3000}) {
            std::string text;
            std::vector<uint32_t> expected;
            for (size_t i = 0; i < num_words; ++i) {
                const size_t kind = random() % 20;
                const size_t length = kind < 18 ? 1 + random() % 14 : 1 + random() % 90;
                std::string word = " " + random_word(random, length);
                if (kind == 0) word += "\xc3\xa9";
                std::vector<uint32_t> ids(word.size() + OUTPUT_SLACK);
                const size_t count = alone->encode_word(bytes_of(word), word.size(),
                                                        bytes_of(word) + word.size(), ids.data());
                for (size_t k = 0; k < count; ++k) {
                    expected.push_back(narrow ? reinterpret_cast<uint16_t*>(ids.data())[k]
                                              : ids[k]);
                }
                text += word;
            }
            std::vector<uint32_t> out(text.size() + OUTPUT_SLACK);
            for (int pass = 0; pass < 2; ++pass) {
                const size_t count = worker->encode(bytes_of(text), text.size(), special,
                                                    out.data(), NO_ID, nullptr);
                check(count == expected.size(), "a text has as many ids as its words");
                for (size_t i = 0; i < count; ++i) {
                    const uint32_t id =
                        narrow ? reinterpret_cast<uint16_t*>(out.data())[i] : out[i];
                    check(id == expected[i], "a text has the ids of its words");
                }
            }
        }
    }
}

// The bytes of each token of a vocabulary, by id.
std::map<uint32_t, std::string> tokens_of(const Vocabulary& vocabulary) {
    std::map<uint32_t, std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens[vocabulary.byte_ids[byte]] = char(byte);
    const size_t size = 256 + vocabulary.merges.size() / 3;
    while (tokens.size() < size) {  // a merge may precede those that make its tokens
        for (size_t i = 0; i < vocabulary.merges.size(); i += 3) {
            const auto left = tokens.find(vocabulary.merges[i]);
            const auto right = tokens.find(vocabulary.merges[i + 1]);
            if (left == tokens.end() || right == tokens.end()) continue;
            tokens.emplace(vocabulary.merges[i + 2], left->second + right->second);
        }
    }
    return tokens;
}

void whole_words_become_their_tokens() {
    std::mt19937 random(11);
    size_t num_known = 0, num_unknown = 0;
    for (int round = 0; round < 40; ++round) {
        const Vocabulary vocabulary = random_vocabulary(random, 100);
        const std::map<uint32_t, std::string> tokens = tokens_of(vocabulary);
        std::map<std::string, uint32_t> ids;
        size_t num_bytes = 0;
        for (const auto& [id, token] : tokens) ids[token] = id, num_bytes += token.size();
        Words words(num_bytes);
        WholeWords whole_words;
        for (const auto& [token, id] : ids) {
            std::copy(token.begin(), token.end(), words.room());
            words.add(token.size(), id);
            whole_words.push_back({words.token(words.num_tokens() - 1), id});
        }
        check(words.index(), "the tokens are different");
        const auto expected = [&](const std::string& word) {
            const auto found = ids.find(word);
            if (found != ids.end()) return std::vector<uint32_t>{found->second};
            return merged<uint32_t>(vocabulary, word);
        };

        const MergeTable<uint32_t> table(vocabulary.byte_ids, vocabulary.merges.data(), 100);
        const KnownWords known(words, self_made_tokens(table, vocabulary.merges.data(), 100));
        for (const auto& [token, id] : ids) {
            uint8_t padded[WORD_PADDING] = {};
            if (token.size() > MAX_SHORT_WORD) continue;
            std::copy(token.begin(), token.end(), padded);
            const WordKey key = make_key(process_hash_seed(), padded, token.size());
            const bool is_known = known.find(key) != NO_ID;
            const auto one = std::vector<uint32_t>{id};
            if (is_known) check(known.find(key) == id, "a known word has the id of its token");
            if (is_known) check(merged<uint32_t>(vocabulary, token) == one, "merging makes it");
            ++(is_known ? num_known : num_unknown);
        }

        const auto encoder = make_encoder(
            false, vocabulary.byte_ids, vocabulary.merges.data(), vocabulary.joins, 1 << 20,
            Scanner(named_program("gpt2"), SimdLevel::SCALAR), SimdLevel::SCALAR, whole_words,
            &words);
        const auto worker = encoder->make_worker(0);
        std::string text;
        std::vector<uint32_t> ids_of_text;
        const auto add = [&](const std::string& word) {
            text += word;
            for (const uint32_t id : expected(word)) ids_of_text.push_back(id);
        };
        for (int i = 0; i < 300; ++i) add(" " + random_word(random, 1 + random() % 20));
        for (const auto& [token, id] : ids) {
            if (token[0] == ' ' && token.size() > 1 && token.find(' ', 1) == token.npos) add(token);
            std::vector<uint32_t> out(token.size() + OUTPUT_SLACK);
            out.resize(worker->encode_word(bytes_of(token), token.size(),
                                           bytes_of(token) + token.size(), out.data()));
            check(out == std::vector<uint32_t>{id}, "a token is a whole word");
        }
        const auto other = encoder->make_worker(0);
        std::vector<uint32_t> out(text.size() + OUTPUT_SLACK);
        out.resize(other->encode(bytes_of(text), text.size(), SpecialIds(), out.data(), NO_ID,
                                 nullptr));
        check(out == ids_of_text, "whole words are not merged, and other words are");
    }
    check(num_known > 1000 && num_unknown > 100, "merges make some of the tokens");
}

void a_cancelled_text_leaves_nothing_behind() {
    std::mt19937 random(9);
    const Vocabulary vocabulary = random_vocabulary(random, 60);
    const auto encoder =
        make_encoder(true, vocabulary.byte_ids, vocabulary.merges.data(), vocabulary.joins, 1 << 20,
                     Scanner(named_program("gpt2"), SimdLevel::SCALAR), SimdLevel::SCALAR);
    const auto worker = encoder->make_worker(0);
    const SpecialIds special;
    bool threw = false;
    for (size_t length = 100000; !threw; length *= 2) {
        // New words, followed by a long word. Encoding is cancelled during the long word.
        std::string text;
        for (const size_t size : {size_t{14}, size_t{14}, length}) {
            text += " " + random_word(random, size);
        }
        std::vector<uint16_t> out(text.size() + OUTPUT_SLACK);
        std::thread other([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            worker->cancelled = true;
        });
        try {
            worker->encode(bytes_of(text), text.size(), special, out.data(), NO_ID, nullptr);
        } catch (const Cancelled&) {
            threw = true;
        }
        other.join();
        worker->cancelled = false;
        const std::string next = " " + random_word(random, 14);
        std::vector<uint16_t> ids(next.size() + OUTPUT_SLACK);
        ids.resize(
            worker->encode(bytes_of(next), next.size(), special, ids.data(), NO_ID, nullptr));
        check(ids == merged<uint16_t>(vocabulary, next), "the next text has its own ids");
    }
}

}  // namespace

int main() {
    workers_may_outlive_their_encoder();
    single_bytes_have_the_ids_of_their_tokens();
    a_long_word_without_room_does_not_clear_the_cache();
    a_batch_is_complete_with_fewer_threads_or_none();
    ids_are_written_as_far_as_there_is_room();
    hostile_words_are_cached_as_others();
    only_bytes_that_merges_join_stay_together();
    parts_fit_into_their_array();
    pieces_of_lines_fit_into_their_arrays();
    segments_merge_as_their_word();
    ids_may_change_while_they_are_decoded<uint16_t>();
    ids_may_change_while_they_are_decoded<uint32_t>();
    every_str_is_written_as_utf8();
    a_lone_surrogate_is_found_wherever_it_is();
    a_text_is_cut_at_the_first_safe_cuts();
    pairs_have_their_first_ranks<uint32_t>();
    pairs_have_their_first_ranks<uint64_t>();
    words_of_a_group_merge_as_alone<uint16_t>();
    words_of_a_group_merge_as_alone<uint32_t>();
    for (const bool narrow : {true, false}) {
        for (const size_t cache_bytes : {0, 1, 1 << 12, 1 << 20}) {
            a_text_has_the_ids_of_its_words(narrow, cache_bytes);
        }
    }
    whole_words_become_their_tokens();
    a_cancelled_text_leaves_nothing_behind();
}
