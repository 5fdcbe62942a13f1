// Compares the rank table and the merging of word groups with simple implementations.
// test_contracts.py builds this file with sanitizers.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"
#include "encoding/encoder.hpp"
#include "encoding/pair_ranks.hpp"
#include "encoding/word_group_merger.hpp"

namespace {

using namespace cs336;

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
    for (uint64_t seed = 0; seed < 20; ++seed) {
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

const uint8_t* bytes_of(const std::string& text) {
    return reinterpret_cast<const uint8_t*>(text.data());
}

TextSpan span_of(const std::string& text) { return {bytes_of(text), text.size()}; }

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
void words_of_a_group_merge_as_alone(SimdLevel level) {
    using Group = WordGroupMerger<Id>;
    std::mt19937 random(5);
    for (int round = 0; round < 40; ++round) {
        const Vocabulary vocabulary = random_vocabulary(random, round % 4 ? 60 : round);
        const MergeTable<Id> table(vocabulary.byte_ids, vocabulary.merges.data(),
                                   vocabulary.merges.size() / 3);
        const auto group = std::make_unique<Group>(table, level);
        for (size_t size : {size_t{0}, size_t{1}, size_t{2}, size_t{13}, Group::CAPACITY}) {
            // The buffer is exactly as large as the words, so that the sanitizer detects overruns.
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

// The text has words of many lengths. Most are new, some are long, and some are not ASCII.
void a_text_has_the_ids_of_its_words(bool narrow, size_t cache_bytes) {
    std::mt19937 random(7);
    for (int round = 0; round < 6; ++round) {
        const Vocabulary vocabulary = random_vocabulary(random, 60);
        const auto encoder = make_encoder(narrow, vocabulary.byte_ids, vocabulary.merges.data(),
                                          vocabulary.joins, cache_bytes,
                                          Scanner(false, SimdLevel::SCALAR), SimdLevel::SCALAR);
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
                const size_t count = alone->encode_word(bytes_of(word), word.size(), ids.data());
                for (size_t k = 0; k < count; ++k) {
                    expected.push_back(narrow ? reinterpret_cast<uint16_t*>(ids.data())[k]
                                              : ids[k]);
                }
                text += word;
            }
            std::vector<uint32_t> out(text.size() + OUTPUT_SLACK);
            for (int pass = 0; pass < 2; ++pass) {
                const size_t count = worker->encode(bytes_of(text), text.size(), special,
                                                    out.data(), ABSENT_ID, nullptr);
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

void a_cancelled_text_leaves_nothing_behind() {
    std::mt19937 random(9);
    const Vocabulary vocabulary = random_vocabulary(random, 60);
    const auto encoder = make_encoder(true, vocabulary.byte_ids, vocabulary.merges.data(),
                                      vocabulary.joins, 1 << 20,
                                      Scanner(false, SimdLevel::SCALAR), SimdLevel::SCALAR);
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
            worker->encode(bytes_of(text), text.size(), special, out.data(), ABSENT_ID, nullptr);
        } catch (const Cancelled&) {
            threw = true;
        }
        other.join();
        worker->cancelled = false;
        const std::string next = " " + random_word(random, 14);
        std::vector<uint16_t> ids(next.size() + OUTPUT_SLACK);
        ids.resize(worker->encode(bytes_of(next), next.size(), special, ids.data(), ABSENT_ID,
                                  nullptr));
        check(ids == merged<uint16_t>(vocabulary, next), "the next text has its own ids");
    }
}

}  // namespace

int main() {
    pairs_have_their_first_ranks<uint32_t>();
    pairs_have_their_first_ranks<uint64_t>();
    for (int level = 0; level < NUM_SIMD_LEVELS; ++level) {
        if (!has_simd_level(SimdLevel(level))) continue;
        words_of_a_group_merge_as_alone<uint16_t>(SimdLevel(level));
        words_of_a_group_merge_as_alone<uint32_t>(SimdLevel(level));
    }
    for (const bool narrow : {true, false}) {
        for (const size_t cache_bytes : {0, 1, 1 << 12, 1 << 20}) {
            a_text_has_the_ids_of_its_words(narrow, cache_bytes);
        }
    }
    a_cancelled_text_leaves_nothing_behind();
}
