// Transformer: the logits of a trained model, for the next token of each of several texts.
//
// This is the compiled form of model/transformer.py. It is made for few tokens at a time, where the
// time to read the weights and the time between operations matter.

#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "base/memory.hpp"
#include "base/simd_level.hpp"
#include "inference/kernels.hpp"
#include "inference/workers.hpp"

namespace cs336 {

// Uninitialized memory at a multiple of `alignment` bytes, by default the size of a cache line.
template <class Number>
class Numbers {
  public:
    Numbers() = default;
    explicit Numbers(size_t size, size_t alignment = 64)
        : memory_(static_cast<Number*>(::operator new(std::max<size_t>(size, 1) * sizeof(Number),
                                                      std::align_val_t(alignment))),
                  Free{alignment}) {}
    Number* data() const { return memory_.get(); }

  private:
    struct Free {
        size_t alignment = 64;
        void operator()(Number* memory) const {
            ::operator delete(memory, std::align_val_t(alignment));
        }
    };
    std::unique_ptr<Number, Free> memory_;
};

enum class Norm { PRE, POST, NONE };

struct Shape {
    size_t vocab_size, context_length, d_model, num_layers, num_heads, kv_heads, d_head, d_ff;
    Norm norm;
    float norm_eps;
    float embedding_scale;
    float soft_cap;  // 0: none
};

// A matrix of float32 weights that is rounded to a precision. FLOAT32 weights are not copied, so
// they must outlive the object.
class RoundedMatrix {
  public:
    // Set the weights and the biases of the rows, which may be null. Then call `round`.
    void set(const float* weights, const float* bias, size_t rows, size_t columns,
             Precision precision) {
        weights_ = weights;
        matrix_ = {rows, columns, precision, weights, nullptr, bias};
    }

    // Number of bytes of the rounded weights, and their memory, which must be set before `round`.
    size_t num_bytes() const {
        const size_t size = matrix_.rows * matrix_.columns;
        return matrix_.precision == Precision::FLOAT32 ? 0
               : matrix_.precision == Precision::INT8  ? size
                                                       : 2 * size;
    }
    void set_memory(uint8_t* rounded) {
        if (matrix_.precision == Precision::FLOAT32) return;
        matrix_.weights = rounded_ = rounded;
        if (matrix_.precision == Precision::BFLOAT16) return;
        scales_ = Numbers<float>(matrix_.rows);
        matrix_.scales = scales_.data();
    }

    // Round rows first .. last - 1.
    void round(const Kernels& kernels, size_t first, size_t last) {
        const size_t columns = matrix_.columns;
        for (size_t row = first; row < last; ++row) {
            const float* from = weights_ + row * columns;
            if (matrix_.precision == Precision::BFLOAT16) {
                BFloat16* to = reinterpret_cast<BFloat16*>(rounded_) + row * columns;
                kernels.round_to_bfloat16(from, columns, to);
            } else if (matrix_.precision == Precision::INT8) {
                int8_t* to = reinterpret_cast<int8_t*>(rounded_) + row * columns;
                scales_.data()[row] = kernels.round_to_int8(from, columns, to);
            }
        }
    }

    const Matrix& matrix() const { return matrix_; }

  private:
    const float* weights_ = nullptr;
    Matrix matrix_;
    uint8_t* rounded_ = nullptr;
    Numbers<float> scales_;
};

struct Layer {
    RoundedMatrix q, k, v, output, w1, w2, w3;
    const float *ln1 = nullptr, *ln2 = nullptr, *q_norm = nullptr, *k_norm = nullptr;
};

class Transformer {
  public:
    Transformer(const Shape& shape, size_t num_texts, int num_threads, SimdLevel simd_level)
        : layers(shape.num_layers),
          shape_(shape),
          kernels_(kernels_of(simd_level)),
          workers_(num_threads),
          slots_((shape.context_length + KEY_BLOCK - 1) / KEY_BLOCK * KEY_BLOCK),
          keys_(shape.num_layers * num_texts * shape.kv_heads * slots_ * shape.d_head),
          values_(shape.num_layers * num_texts * shape.kv_heads * slots_ * shape.d_head),
          scores_(most_parts() * slots_),
          num_texts_(num_texts) {}

    // The weights, which the owner sets before the first call of `forward`.
    std::vector<Layer> layers;
    RoundedMatrix head;
    const float* embeddings = nullptr;  // vocab_size * d_model
    const float* bigrams = nullptr;     // vectors of d_model numbers for pairs of ids, or null
    const float* bigram_scale = nullptr;
    const float* final_norm = nullptr;
    const float *cos = nullptr, *sin = nullptr;  // context_length * d_head / 2, or null

    // Round the weights of all matrices.
    void round_weights() {
        std::vector<RoundedMatrix*> matrices = {&head};
        for (Layer& layer : layers) {
            for (RoundedMatrix* matrix :
                 {&layer.q, &layer.k, &layer.v, &layer.output, &layer.w1, &layer.w2, &layer.w3}) {
                if (matrix->matrix().rows != 0) matrices.push_back(matrix);
            }
        }
        // One block of memory on huge pages: with small pages, every 4 KiB of weights cost a page
        // fault, and later a TLB miss for each token.
        constexpr size_t LINE = 64;
        size_t num_bytes = 0;
        for (const RoundedMatrix* matrix : matrices) {
            num_bytes += (matrix->num_bytes() + LINE - 1) / LINE * LINE;
        }
        rounded_ = Numbers<uint8_t>(num_bytes, num_bytes < HUGE_PAGE ? LINE : HUGE_PAGE);
        ask_for_huge_pages(rounded_.data(), num_bytes);
        uint8_t* memory = rounded_.data();
        for (RoundedMatrix* matrix : matrices) {
            matrix->set_memory(memory);
            memory += (matrix->num_bytes() + LINE - 1) / LINE * LINE;
        }
        for (RoundedMatrix* matrix : matrices) {
            in_parts(matrix->matrix().rows, false, 16, [&](size_t first, size_t last, size_t) {
                matrix->round(kernels_, first, last);
            });
        }
    }

    // Add tokens to texts, and write the logits (num_wanted, vocab_size) for the token after each
    // wanted one.
    //
    // Token i has the id ids[i] and is at positions[i] of text texts[i], whose earlier positions
    // have been added before, or are at lower i. `wanted` contains increasing indexes of tokens.
    // With `bigrams`, rows[i] is the index of the vector to add to the token's embedding.
    void forward(const int64_t* ids, const int64_t* texts, const int64_t* positions,
                 const int64_t* rows, size_t count, const int64_t* wanted, size_t num_wanted,
                 float* logits) {
        const bool few = count <= FEW_TOKENS;
        const auto start = std::chrono::steady_clock::now();
        alone_ = workers_.num_threads() == 1 || (few && choice_.alone());
        for (size_t first = 0; first < count; first += MOST_TOKENS) {
            const size_t tokens = std::min(count - first, MOST_TOKENS);
            size_t num_here = 0;
            while (num_here < num_wanted && size_t(wanted[num_here]) < first + tokens) ++num_here;
            ids_ = ids + first;
            texts_ = texts + first;
            positions_ = positions + first;
            if (bigrams) rows_ = rows + first;
            add_tokens(tokens, first, wanted, num_here, logits);
            wanted += num_here;
            num_wanted -= num_here;
            logits += num_here * shape_.vocab_size;
        }
        if (few) {
            const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
            choice_.record(seconds.count());
        }
    }

  private:
    static constexpr size_t MOST_TOKENS = 256;  // at a time, which bounds the memory
    static constexpr size_t FEW_TOKENS = 8;

    struct Product {
        const RoundedMatrix* weights;
        float* out;
        size_t stride;
    };

    // At most this many parts, because some threads may run later than others.
    size_t most_parts() const { return 4 * size_t(workers_.num_threads()); }

    // Call task(first, last, part) for parts of 0 .. size - 1 whose sizes are multiples of `unit`.
    template <class Task>
    void in_parts(size_t size, bool alone, size_t unit, const Task& task) {
        const size_t wanted = alone ? 1 : most_parts();
        const size_t part = ((size + wanted - 1) / wanted + unit - 1) / unit * unit;
        const size_t num_parts = (size + part - 1) / part;
        workers_.run(num_parts, alone,
                     [&](size_t i) { task(i * part, std::min(size, (i + 1) * part), i); });
    }

    // Make room for the intermediate results of `tokens` tokens.
    void reserve(size_t tokens) {
        if (tokens <= reserved_) return;
        const size_t width = shape_.num_heads * shape_.d_head;
        const size_t kv_width = shape_.kv_heads * shape_.d_head;
        const size_t widest = std::max({shape_.d_model, width, shape_.d_ff});
        stream_ = Numbers<float>(tokens * shape_.d_model);
        normed_ = Numbers<float>(tokens * shape_.d_model);
        added_ = Numbers<float>(tokens * shape_.d_model);
        projected_ = Numbers<float>(tokens * (width + 2 * kv_width));
        attended_ = Numbers<float>(tokens * width);
        gates_ = Numbers<float>(tokens * shape_.d_ff);
        inner_ = Numbers<float>(tokens * shape_.d_ff);
        integers_ = Numbers<int16_t>(tokens * widest);
        scales_ = Numbers<float>(tokens);
        reserved_ = tokens;
    }

    // The vectors x, of `size` numbers each, as the inputs of a product with weights like `matrix`.
    Inputs inputs(const float* x, size_t tokens, size_t size, const RoundedMatrix& matrix) {
        if (matrix.matrix().precision == Precision::INT8) {
            in_parts(tokens, alone_ || tokens < FEW_TOKENS, 1,
                     [&](size_t first, size_t last, size_t) {
                         for (size_t t = first; t < last; ++t) {
                             scales_.data()[t] = kernels_.round_to_int16(
                                 x + t * size, size, integers_.data() + t * size);
                         }
                     });
        }
        return {tokens, x, integers_.data(), scales_.data()};
    }

    // Compute products with the same inputs, which have equal numbers of columns.
    void multiply(const Inputs& x, const Product* products, size_t num_products) {
        size_t rows = 0;
        for (size_t i = 0; i < num_products; ++i) rows += products[i].weights->matrix().rows;
        in_parts(rows, alone_, 12, [&](size_t first, size_t last, size_t) {
            size_t start = 0;  // of the matrix, in the rows of all
            for (size_t i = 0; i < num_products; ++i) {
                const Matrix& matrix = products[i].weights->matrix();
                const size_t from = std::max(first, start);
                const size_t to = std::min(last, start + matrix.rows);
                if (from < to) {
                    kernels_.multiply(matrix, from - start, to - start, x, products[i].out,
                                      products[i].stride);
                }
                start += matrix.rows;
            }
        });
    }

    void add_tokens(size_t tokens, size_t offset, const int64_t* wanted, size_t num_wanted,
                    float* logits) {
        reserve(tokens);
        const size_t d_model = shape_.d_model;
        float* x = stream_.data();
        for (size_t t = 0; t < tokens; ++t) {
            const float* row = embeddings + size_t(ids_[t]) * d_model;
            const float* pair = bigrams ? bigrams + size_t(rows_[t]) * d_model : nullptr;
            for (size_t i = 0; i < d_model; ++i) {
                const float sum = pair ? row[i] + pair[i] * bigram_scale[i] : row[i];
                x[t * d_model + i] = sum * shape_.embedding_scale;
            }
        }
        for (size_t layer = 0; layer < layers.size(); ++layer) add_layer(layer, tokens);

        // Only wanted tokens need the head.
        float* last = normed_.data();
        for (size_t i = 0; i < num_wanted; ++i) {
            const float* from = x + (size_t(wanted[i]) - offset) * d_model;
            if (shape_.norm == Norm::PRE) {
                kernels_.normalize(from, final_norm, shape_.norm_eps, d_model, last + i * d_model);
            } else {
                std::memcpy(last + i * d_model, from, d_model * sizeof(float));
            }
        }
        if (num_wanted == 0) return;
        const Product product = {&head, logits, shape_.vocab_size};
        multiply(inputs(last, num_wanted, d_model, head), &product, 1);
        if (shape_.soft_cap > 0) {
            for (size_t i = 0; i < num_wanted * shape_.vocab_size; ++i) {
                logits[i] = shape_.soft_cap * std::tanh(logits[i] / shape_.soft_cap);
            }
        }
    }

    void add_layer(size_t number, size_t tokens) {
        const Layer& layer = layers[number];
        float* x = stream_.data();
        attention(number, tokens, before_sublayer(layer.ln1, tokens));
        after_sublayer(layer.ln1, tokens, x);
        feed_forward(layer, tokens, before_sublayer(layer.ln2, tokens));
        after_sublayer(layer.ln2, tokens, x);
    }

    // The input of a sublayer: normalized, or the residual stream itself.
    const float* before_sublayer(const float* gain, size_t tokens) {
        if (shape_.norm != Norm::PRE) return stream_.data();
        normalize(stream_.data(), gain, tokens, normed_.data());
        return normed_.data();
    }

    // Add the sublayer's output, in `added_`, to the residual stream.
    void after_sublayer(const float* gain, size_t tokens, float* x) {
        const float* added = added_.data();
        for (size_t i = 0; i < tokens * shape_.d_model; ++i) x[i] += added[i];
        if (shape_.norm == Norm::POST) normalize(x, gain, tokens, x);
    }

    void normalize(const float* from, const float* gain, size_t tokens, float* to) {
        const size_t size = shape_.d_model;
        in_parts(tokens, alone_ || tokens < FEW_TOKENS, 1, [&](size_t first, size_t last, size_t) {
            for (size_t t = first; t < last; ++t) {
                kernels_.normalize(from + t * size, gain, shape_.norm_eps, size, to + t * size);
            }
        });
    }

    void attention(size_t number, size_t tokens, const float* x) {
        const Layer& layer = layers[number];
        const size_t d_head = shape_.d_head, heads = shape_.num_heads;
        const size_t width = heads * d_head, kv_width = shape_.kv_heads * d_head;
        const size_t stride = width + 2 * kv_width;
        float* projected = projected_.data();
        const Product products[] = {{&layer.q, projected, stride},
                                    {&layer.k, projected + width, stride},
                                    {&layer.v, projected + width + kv_width, stride}};
        multiply(inputs(x, tokens, shape_.d_model, layer.q), products, 3);
        in_parts(tokens, alone_ || tokens < FEW_TOKENS, 1, [&](size_t first, size_t last, size_t) {
            for (size_t t = first; t < last; ++t) {
                float* q = projected + t * stride;
                rotate(q, heads, layer.q_norm, size_t(positions_[t]));
                rotate(q + width, shape_.kv_heads, layer.k_norm, size_t(positions_[t]));
                const float factor = 1.0f / std::sqrt(float(d_head));
                for (size_t i = 0; i < width; ++i) q[i] *= factor;
                store(number, t, q + width, q + width + kv_width);
            }
        });
        const size_t shared = heads / shape_.kv_heads;  // query heads for each head of keys
        in_parts(tokens * heads, alone_, 1, [&](size_t first, size_t last, size_t part) {
            for (size_t i = first; i < last; ++i) {
                const size_t t = i / heads, head = i % heads;
                const size_t at = start_of(number, size_t(texts_[t]), head / shared);
                kernels_.attend(projected + t * stride + head * d_head, keys_.data() + at,
                                values_.data() + at, size_t(positions_[t]) + 1, d_head,
                                scores_.data() + part * slots_,
                                attended_.data() + t * width + head * d_head);
            }
        });
        const Product product = {&layer.output, added_.data(), shape_.d_model};
        multiply(inputs(attended_.data(), tokens, width, layer.output), &product, 1);
    }

    // Index in `keys_` and `values_` of a head of a text.
    size_t start_of(size_t layer, size_t text, size_t head) const {
        return ((layer * num_texts_ + text) * shape_.kv_heads + head) * slots_ * shape_.d_head;
    }

    // Normalize the heads of queries or keys and rotate them by their position, as configured.
    void rotate(float* x, size_t heads, const float* gain, size_t position) const {
        const size_t d_head = shape_.d_head;
        for (size_t head = 0; head < heads; ++head, x += d_head) {
            if (gain) kernels_.normalize(x, gain, shape_.norm_eps, d_head, x);
            if (!cos) continue;
            const float* c = cos + position * (d_head / 2);
            const float* s = sin + position * (d_head / 2);
            for (size_t i = 0; i < d_head / 2; ++i) {
                const float even = x[2 * i], odd = x[2 * i + 1];
                x[2 * i] = even * c[i] - odd * s[i];
                x[2 * i + 1] = even * s[i] + odd * c[i];
            }
        }
    }

    void store(size_t layer, size_t t, const float* keys, const float* values) {
        const size_t d_head = shape_.d_head, slot = size_t(positions_[t]);
        for (size_t head = 0; head < shape_.kv_heads; ++head) {
            const size_t start = start_of(layer, size_t(texts_[t]), head);
            float* block = keys_.data() + start + slot / KEY_BLOCK * KEY_BLOCK * d_head;
            for (size_t i = 0; i < d_head; ++i) {
                block[i * KEY_BLOCK + slot % KEY_BLOCK] = keys[head * d_head + i];
            }
            std::memcpy(values_.data() + start + slot * d_head, values + head * d_head,
                        d_head * sizeof(float));
        }
    }

    void feed_forward(const Layer& layer, size_t tokens, const float* x) {
        const size_t d_ff = shape_.d_ff;
        const bool gated = layer.w3.matrix().rows != 0;
        const Product products[] = {{&layer.w1, inner_.data(), d_ff},
                                    {&layer.w3, gates_.data(), d_ff}};
        multiply(inputs(x, tokens, shape_.d_model, layer.w1), products, gated ? 2 : 1);
        in_parts(tokens, alone_ || tokens < FEW_TOKENS, 1, [&](size_t first, size_t last, size_t) {
            kernels_.activate(inner_.data() + first * d_ff,
                              gated ? gates_.data() + first * d_ff : nullptr, (last - first) * d_ff,
                              inner_.data() + first * d_ff);
        });
        const Product product = {&layer.w2, added_.data(), shape_.d_model};
        multiply(inputs(inner_.data(), tokens, d_ff, layer.w2), &product, 1);
    }

    Shape shape_;
    const Kernels& kernels_;
    Workers workers_;
    ThreadChoice choice_;
    bool alone_ = true;
    size_t slots_;  // of each text's cache, a multiple of KEY_BLOCK
    Numbers<float> keys_, values_, scores_;
    size_t num_texts_;
    const int64_t *ids_ = nullptr, *texts_ = nullptr, *positions_ = nullptr, *rows_ = nullptr;

    size_t reserved_ = 0;  // tokens
    Numbers<float> stream_, normed_, added_, projected_, attended_, gates_, inner_, scales_;
    Numbers<int16_t> integers_;
    Numbers<uint8_t> rounded_;  // the weights of all matrices
};

}  // namespace cs336
