// What the encoder guarantees and Python cannot see; test_encoder_contract.py builds this with the
// address sanitizer.

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "batch_encoder.hpp"

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
    return make_encoder(true, byte_ids, nullptr, 0, cache_bytes, false, SimdLevel::SCALAR);
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

WordKey key_of(const std::string& word) {
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(word.data());
    return WordCache<uint16_t>::key(bytes, word.size(), bytes + word.size());
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

}  // namespace

int main() {
    workers_may_outlive_their_encoder();
    a_long_word_without_room_does_not_clear_the_cache();
    a_batch_is_complete_with_fewer_threads_or_none();
}
