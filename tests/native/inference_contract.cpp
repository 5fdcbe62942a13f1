// The contract of native/inference/: no access outside of the weights, and the same logits for any
// number of threads, SIMD level and division of the tokens into calls.

#include <atomic>
#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "inference/transformer.hpp"

using namespace cs336;

namespace {

// A model with odd sizes. Each weight has an allocation of its own, so that the address sanitizer
// sees the end of every matrix.
struct Model {
    Shape shape = {37, 21, 10, 2, 3, 1, 6, 11, Norm::PRE, 1e-5f, 1.0f, 0.0f};
    std::vector<std::vector<float>> weights;
    std::mt19937 random{1};

    const float* draw(size_t size) {
        std::vector<float> numbers(size);
        for (float& number : numbers) number = float(random() % 2001) / 1000 - 1;
        weights.push_back(numbers);
        weights.back().shrink_to_fit();
        return weights.back().data();
    }
};

constexpr size_t NUM_ROWS = 7;  // of the table of bigrams

std::vector<float> logits_of(Precision precision, SimdLevel simd_level, int num_threads,
                             size_t step) {
    Model model;
    model.weights.reserve(100);  // pointers to the numbers stay valid in any case
    const Shape& shape = model.shape;
    Transformer transformer(shape, 2, num_threads, simd_level);
    const size_t d = shape.d_model, width = shape.num_heads * shape.d_head;
    const size_t kv_width = shape.kv_heads * shape.d_head;
    transformer.embeddings = model.draw(shape.vocab_size * d);
    transformer.bigrams = model.draw(NUM_ROWS * d);
    transformer.bigram_scale = model.draw(d);
    transformer.final_norm = model.draw(d);
    transformer.cos = model.draw(shape.context_length * shape.d_head / 2);
    transformer.sin = model.draw(shape.context_length * shape.d_head / 2);
    const auto set = [&](RoundedMatrix& matrix, size_t rows, size_t columns, bool has_bias) {
        const float* numbers = model.draw(rows * columns);
        matrix.set(numbers, has_bias ? model.draw(rows) : nullptr, rows, columns, precision);
    };
    for (Layer& layer : transformer.layers) {
        set(layer.q, width, d, true);
        set(layer.k, kv_width, d, true);
        set(layer.v, kv_width, d, true);
        set(layer.output, d, width, false);
        set(layer.w1, shape.d_ff, d, false);
        set(layer.w3, shape.d_ff, d, false);
        set(layer.w2, d, shape.d_ff, false);
        layer.ln1 = model.draw(d);
        layer.ln2 = model.draw(d);
        layer.q_norm = model.draw(shape.d_head);
        layer.k_norm = model.draw(shape.d_head);
    }
    set(transformer.head, shape.vocab_size, d, false);
    transformer.round_weights();

    // Two texts, whose tokens alternate.
    std::vector<int64_t> ids, texts, positions, rows;
    for (size_t i = 0; i < 2 * shape.context_length; ++i) {
        ids.push_back(int64_t(i * i % shape.vocab_size));
        texts.push_back(int64_t(i % 2));
        positions.push_back(int64_t(i / 2));
        rows.push_back(int64_t(i * 5 % NUM_ROWS));
    }
    std::vector<float> logits(ids.size() * shape.vocab_size);
    for (size_t first = 0; first < ids.size(); first += step) {
        std::vector<int64_t> wanted(std::min(step, ids.size() - first));
        for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = int64_t(i);
        transformer.forward(&ids[first], &texts[first], &positions[first], &rows[first],
                            wanted.size(), wanted.data(), wanted.size(),
                            &logits[first * shape.vocab_size]);
    }
    return logits;
}

}  // namespace

int main() {
    for (const Precision precision : {Precision::FLOAT32, Precision::BFLOAT16, Precision::INT8}) {
        const std::vector<float> expected = logits_of(precision, SimdLevel::SCALAR, 1, 1);
        for (int level = 0; level < NUM_SIMD_LEVELS; ++level) {
            if (!has_simd_level(SimdLevel(level))) continue;
            const std::vector<float> alone = logits_of(precision, SimdLevel(level), 1, 1);
            for (size_t i = 0; i < expected.size(); ++i) {
                check(std::fabs(alone[i] - expected[i]) < 1e-3f, "levels differ");
            }
            for (const size_t step : {size_t(1), size_t(5), size_t(42)}) {
                const std::vector<float> threads = logits_of(precision, SimdLevel(level), 3, step);
                for (size_t i = 0; i < expected.size(); ++i) {
                    check(std::fabs(threads[i] - alone[i]) < 1e-3f, "calls differ");
                }
                if (step == 1) check(threads == alone, "threads differ");
            }
        }
    }

    // Workers run every task once, also if the jobs are short and follow each other at once.
    Workers workers(4);
    for (size_t size = 0; size < 3000; ++size) {
        const size_t num_tasks = size % 97;
        std::vector<std::atomic<int>> runs(num_tasks);
        workers.run(num_tasks, size % 5 == 0, [&](size_t i) { ++runs[i]; });
        for (const auto& count : runs) check(count == 1, "a task did not run once");
    }
    return 0;
}
