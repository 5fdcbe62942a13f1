// What the encoder guarantees and Python cannot see; test_encoder_contract.py builds this with the
// address sanitizer.

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "batch_encoder.hpp"
#include "decoder.hpp"
#include "hashing.hpp"

// The number of threads that can still be started; -1: no limit but the system's.
static int threads_left = -1;

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    if (threads_left == 0) return EAGAIN;
    if (threads_left > 0) --threads_left;
    return create(thread, attributes, run, argument);
}

namespace {

using namespace cs336;

void check(bool holds, const char* claim) {
    if (holds) return;
    std::fprintf(stderr, "false: %s\n", claim);
    std::exit(1);
}

std::unique_ptr<Encoder> encoder_of_bytes(size_t cache_bytes) {
    uint32_t byte_ids[256];
    for (uint32_t byte = 0; byte < 256; ++byte) byte_ids[byte] = byte;
    return make_encoder(true, byte_ids, nullptr, 0, cache_bytes, Scanner(false, SimdLevel::SCALAR), SimdLevel::SCALAR);
}

void workers_may_outlive_their_encoder() {
    auto encoder = encoder_of_bytes(1 << 20);
    auto worker = encoder->make_worker(0);
    const std::string text = "some words and an extraordinarily long one";
    uint16_t ids[64];
    const SpecialIds special;
    worker->encode(reinterpret_cast<const uint8_t*>(text.data()), text.size(), special, ids,
                   ABSENT_ID, nullptr);
    encoder.reset();
    worker.reset();  // returns its memory to the shared budget
}


void a_long_word_without_room_does_not_clear_the_cache() {
    // The table takes all of the budget.
    const auto budget = std::make_shared<CacheBudget>(size_t{1} << 17);
    WordCache<uint16_t> cache(budget);
    const std::string near = "near", far = "a word of more than 15 bytes";
    const uint16_t ids[3] = {1, 2, 3};
    const auto bytes = [](const std::string& word) {
        return reinterpret_cast<const uint8_t*>(word.data());
    };
    const auto key_of = [&](const std::string& word) {
        return cache.key(bytes(word), word.size(), bytes(word) + word.size());
    };
    cache.insert(key_of(near), bytes(near), ids, 3);
    cache.insert(key_of(far), bytes(far), ids, 3);
    check(cache.find(key_of(near), bytes(near)), "the short word is still there");
    check(!cache.find(key_of(far), bytes(far)), "the long one is not");
    check(!budget->take(1), "the budget is not exceeded");
}

void a_batch_is_complete_with_fewer_threads_or_none() {
    const auto encoder = encoder_of_bytes(1 << 20);
    const auto worker = encoder->make_worker(0);
    const std::vector<EncodingWorker*> workers = {worker.get()};
    const std::string text = "abc def";
    const std::vector<TextSpan> texts(3, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    const SpecialIds special;
    BatchEncoder batch(workers, 2, texts, special);
    threads_left = 1;
    batch.start();
    while (!batch.wait(50)) {
    }
    batch.join();
    check(batch.failure().kind == Failure::NONE, "one thread is enough");
    std::vector<uint16_t> ids(3 * text.size());
    batch.gather(reinterpret_cast<uint8_t*>(ids.data()));
    threads_left = -1;
    for (size_t i = 0; i < ids.size(); ++i) {
        check(ids[i] == uint8_t(text[i % text.size()]), "ids are gathered without any thread");
    }
}

void hostile_words_are_cached_as_others() {
    // Words of one hash, for the seed below: their first factor is 0.
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
        const uint8_t* bytes = reinterpret_cast<const uint8_t*>(words[i].data());
        const uint16_t id = uint16_t(i);
        const WordKey key = cache.key(bytes, words[i].size(), bytes + words[i].size());
        check(key.hash == 0, "the words have one hash");
        cache.insert(key, bytes, &id, 1);
    }
    for (size_t i = 0; i < words.size(); ++i) {
        const uint8_t* bytes = reinterpret_cast<const uint8_t*>(words[i].data());
        const WordKey key = cache.key(bytes, words[i].size(), bytes + words[i].size());
        const auto* entry = cache.find(key, bytes);
        check(entry && *WordCache<uint16_t>::ids(*entry, key) == i, "words of one hash are found");
    }
}

void merges_wait_for_the_tokens_that_they_join() {
    // Tokens a^(i+1) for i < 3000, learned from the longest to the shortest.
    constexpr uint32_t LENGTH = 3000;
    uint32_t byte_ids[256];
    std::fill(byte_ids, byte_ids + 256, ABSENT_ID);
    byte_ids['a'] = 0;
    byte_ids['b'] = LENGTH;
    std::vector<uint32_t> merges = {LENGTH - 1, LENGTH, LENGTH + 1};
    for (uint32_t id = LENGTH - 1; id > 0; --id) merges.insert(merges.end(), {id - 1, 0, id});
    const MergeTable<uint16_t> table(byte_ids, merges.data(), merges.size() / 3);
    check(table.joins('a', 'a') && table.joins('a', 'b'), "all merges that can happen join bytes");
    check(!table.joins('b', 'a'), "and no others");
}

void ids_may_change_while_they_are_decoded() {
    // Ids 0: no token, 1: one byte, 2: a long token; others do not exist.
    const std::string token(5000, 'x');
    const int64_t offsets[] = {0, 0, 1, 5001};
    const std::string data = "y" + token;
    const Decoder decoder(reinterpret_cast<const uint8_t*>(data.data()), offsets, 3);
    std::vector<uint16_t> ids(20000, 1);
    std::atomic<bool> done{false};
    std::thread other([&] {
        volatile uint16_t* shared = ids.data();
        for (size_t i = 0; !done; i = (i + 1) % ids.size()) {
            shared[i] = i % 3000 ? 2 : 65535;
            shared[i] = 1;
        }
    });
    for (int repeat = 0; repeat < 200; ++repeat) {
        Decoding decoding(decoder, ids.size());
        if (decoding.append_array(ids.data(), ids.size())) {
            for (size_t i = 0; i < decoding.size(); ++i) {
                check(decoding.data()[i] == 'x' || decoding.data()[i] == 'y', "only tokens");
            }
        }
    }
    done = true;
    other.join();
}

}  // namespace

int main() {
    workers_may_outlive_their_encoder();
    a_long_word_without_room_does_not_clear_the_cache();
    a_batch_is_complete_with_fewer_threads_or_none();
    hostile_words_are_cached_as_others();
    merges_wait_for_the_tokens_that_they_join();
    ids_may_change_while_they_are_decoded();
}
