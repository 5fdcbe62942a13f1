// The kernels of a Transformer, written once and included by kernels.hpp for each SIMD level.
//
// The includer opens the namespace of a level, whose names lanes.hpp defines, and defines
// CS336_TARGET, the attribute of the level's functions. Alone, this file is empty.

#if defined(CS336_TARGET)

#define CS336_KERNEL CS336_INLINE CS336_TARGET

// Blocks whose sums fit the vector registers: 16 with AVX2, otherwise 32.
template <class Weight>
constexpr size_t BLOCK_ROWS = SHORTS != 16                          ? 4
                              : std::is_same<Weight, int8_t>::value ? 2
                                                                    : 3;
constexpr size_t BLOCK_TOKENS = 4;
constexpr size_t ROWS_OF_ONE_TOKEN = 4;

// Request the next rows while these are multiplied. The CPU itself does not look beyond the end of
// a page.
CS336_KERNEL void prefetch(const void* address) {
#if defined(__GNUC__)
    __builtin_prefetch(address, 0, 3);
#else
    (void)address;
#endif
}

// result[r][t] = the product of row r of `weights` and token t of `x`.
template <size_t ROWS, size_t TOKENS, class Weight>
CS336_KERNEL void multiply_floats(const Weight* weights, const float* x, size_t columns,
                                  float (&result)[ROWS][TOKENS]) {
    Floats sums[ROWS][TOKENS];
    for (auto& row : sums) {
        for (Floats& each : row) each = spread(0.0f);
    }
    size_t i = 0;
    for (; i + WIDTH <= columns; i += WIDTH) {
        Floats w[ROWS];
        for (size_t r = 0; r < ROWS; ++r) {
            w[r] = load(weights + r * columns + i);
            if (TOKENS == 1) prefetch(weights + (r + ROWS) * columns + i);
        }
        for (size_t t = 0; t < TOKENS; ++t) {
            const Floats values = load(x + t * columns + i);
            for (size_t r = 0; r < ROWS; ++r) sums[r][t] = multiply_add(w[r], values, sums[r][t]);
        }
    }
    for (size_t r = 0; r < ROWS; ++r) {
        for (size_t t = 0; t < TOKENS; ++t) {
            float total = sum(sums[r][t]);
            for (size_t j = i; j < columns; ++j) {
                total += to_float(weights[r * columns + j]) * x[t * columns + j];
            }
            result[r][t] = total;
        }
    }
}

// The same for integers, exactly. A lane adds at most 2 products of 127 * 32,767 at a time, so 256
// times fit 32 bits.
template <size_t ROWS, size_t TOKENS>
CS336_KERNEL void multiply_integers(const int8_t* weights, const int16_t* x, size_t columns,
                                    int64_t (&result)[ROWS][TOKENS]) {
    for (auto& row : result) {
        for (int64_t& each : row) each = 0;
    }
    size_t i = 0;
    while (i + SHORTS <= columns) {
        const size_t left = (columns - i) / SHORTS;
        const size_t end = i + (left < 256 ? left : 256) * SHORTS;
        Ints sums[ROWS][TOKENS];
        for (auto& row : sums) {
            for (Ints& each : row) each = no_ints();
        }
        for (; i < end; i += SHORTS) {
            Shorts w[ROWS];
            for (size_t r = 0; r < ROWS; ++r) {
                w[r] = load_shorts(weights + r * columns + i);
                if (TOKENS == 1) prefetch(weights + (r + ROWS) * columns + i);
            }
            for (size_t t = 0; t < TOKENS; ++t) {
                const Shorts values = load_shorts(x + t * columns + i);
                for (size_t r = 0; r < ROWS; ++r) {
                    sums[r][t] = multiply_add(w[r], values, sums[r][t]);
                }
            }
        }
        for (size_t r = 0; r < ROWS; ++r) {
            for (size_t t = 0; t < TOKENS; ++t) result[r][t] += sum(sums[r][t]);
        }
    }
    for (; i < columns; ++i) {
        for (size_t r = 0; r < ROWS; ++r) {
            for (size_t t = 0; t < TOKENS; ++t) {
                result[r][t] += int64_t(weights[r * columns + i]) * x[t * columns + i];
            }
        }
    }
}

template <size_t ROWS, size_t TOKENS, class Weight>
CS336_KERNEL void multiply_block(const Matrix& matrix, size_t row, const Inputs& inputs,
                                 size_t token, float* out, size_t stride) {
    const size_t columns = matrix.columns;
    float result[ROWS][TOKENS];
    if constexpr (std::is_same<Weight, int8_t>::value) {
        int64_t sums[ROWS][TOKENS];
        multiply_integers(static_cast<const int8_t*>(matrix.weights) + row * columns,
                          inputs.integers + token * columns, columns, sums);
        for (size_t r = 0; r < ROWS; ++r) {
            for (size_t t = 0; t < TOKENS; ++t) {
                const double unit = double(matrix.scales[row + r]) * inputs.scales[token + t];
                result[r][t] = float(double(sums[r][t]) * unit);
            }
        }
    } else {
        multiply_floats(static_cast<const Weight*>(matrix.weights) + row * columns,
                        inputs.values + token * columns, columns, result);
    }
    for (size_t r = 0; r < ROWS; ++r) {
        const float bias = matrix.bias ? matrix.bias[row + r] : 0.0f;
        for (size_t t = 0; t < TOKENS; ++t) {
            out[(token + t) * stride + row + r] = result[r][t] + bias;
        }
    }
}

template <size_t ROWS, class Weight>
CS336_KERNEL void multiply_rows(const Matrix& matrix, size_t row, const Inputs& inputs, float* out,
                                size_t stride) {
    size_t token = 0;
    for (; token + BLOCK_TOKENS <= inputs.tokens; token += BLOCK_TOKENS) {
        multiply_block<ROWS, BLOCK_TOKENS, Weight>(matrix, row, inputs, token, out, stride);
    }
    for (; token < inputs.tokens; ++token) {
        multiply_block<ROWS, 1, Weight>(matrix, row, inputs, token, out, stride);
    }
}

template <class Weight>
CS336_TARGET void multiply_with(const Matrix& matrix, size_t first, size_t last,
                                const Inputs& inputs, float* out, size_t stride) {
    size_t row = first;
    if (inputs.tokens == 1) {
        for (; row + ROWS_OF_ONE_TOKEN <= last; row += ROWS_OF_ONE_TOKEN) {
            multiply_block<ROWS_OF_ONE_TOKEN, 1, Weight>(matrix, row, inputs, 0, out, stride);
        }
    } else {
        constexpr size_t ROWS = BLOCK_ROWS<Weight>;
        for (; row + ROWS <= last; row += ROWS) {
            multiply_rows<ROWS, Weight>(matrix, row, inputs, out, stride);
        }
    }
    for (; row < last; ++row) multiply_rows<1, Weight>(matrix, row, inputs, out, stride);
}

CS336_TARGET void multiply(const Matrix& matrix, size_t first, size_t last, const Inputs& inputs,
                           float* out, size_t stride) {
    switch (matrix.precision) {
        case Precision::FLOAT32:
            return multiply_with<float>(matrix, first, last, inputs, out, stride);
        case Precision::BFLOAT16:
            return multiply_with<BFloat16>(matrix, first, last, inputs, out, stride);
        case Precision::INT8:
            return multiply_with<int8_t>(matrix, first, last, inputs, out, stride);
    }
}

// Round x[i] / scale to the integers out[i], and return the scale, max |x| / LIMIT. It is NaN if a
// number is not finite.
template <class Integer, int LIMIT>
CS336_TARGET float quantize(const float* x, size_t size, Integer* out) {
    Floats top = spread(0.0f), invalid = spread(0.0f);
    size_t i = 0;
    for (; i + WIDTH <= size; i += WIDTH) {
        const Floats values = load(x + i);
        top = larger(magnitude(values), top);
        invalid = add(invalid, subtract(values, values));  // inf - inf is NaN
    }
    float most = largest(top), check = sum(invalid);
    for (; i < size; ++i) {
        const float value = std::fabs(x[i]);
        if (value > most) most = value;
        check += x[i] - x[i];
    }
    const float scale = most / LIMIT + check;
    if (!(scale > 0)) {
        std::memset(out, 0, size * sizeof(Integer));
        return scale;
    }
    // Adding 1.5 * 2^23 rounds a number to an integer (half to even), in the lowest bits of the
    // sum.
    const float shift = 12582912.0f;
    const Floats divisor = spread(scale), limit = spread(LIMIT), least = spread(-LIMIT);
    const auto round = [&](Floats values) CS336_TARGET {
        // With a denormal scale, a quotient may exceed the limit.
        values = smaller(larger(divide(values, divisor), least), limit);
        return add(values, spread(shift));
    };
    constexpr size_t STEP = 64;
    float sums[STEP];
    uint32_t bits[STEP];
    for (size_t start = 0; start < size; start += STEP) {
        const size_t count = size - start < STEP ? size - start : STEP;
        const float* from = x + start;
        float padded[STEP];
        if (count < STEP) {
            std::memset(padded, 0, sizeof padded);
            std::memcpy(padded, from, count * sizeof(float));
            from = padded;
        }
        for (size_t j = 0; j < STEP; j += WIDTH) store(sums + j, round(load(from + j)));
        std::memcpy(bits, sums, sizeof bits);
        if (count == STEP) {
            for (size_t j = 0; j < STEP; ++j) out[start + j] = Integer(bits[j]);
        } else {
            for (size_t j = 0; j < count; ++j) out[start + j] = Integer(bits[j]);
        }
    }
    return scale;
}

// out[i] = the nearest bfloat16, or the one with an even last bit if two are as near.
CS336_TARGET void round_to_bfloat16(const float* x, size_t size, BFloat16* out) {
    for (size_t i = 0; i < size; ++i) {
        uint32_t bits;
        std::memcpy(&bits, &x[i], sizeof bits);
        const uint32_t nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
        const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
        out[i].bits = uint16_t(is_nan ? 0x7FC0 : nearest);
    }
}

// out = x / sqrt(mean(x^2) + eps) * gain; out may be x.
CS336_TARGET void normalize(const float* x, const float* gain, float eps, size_t size, float* out) {
    Floats squares = spread(0.0f);
    size_t i = 0;
    for (; i + WIDTH <= size; i += WIDTH) {
        const Floats values = load(x + i);
        squares = multiply_add(values, values, squares);
    }
    float total = sum(squares);
    for (; i < size; ++i) total += x[i] * x[i];
    const float factor = 1.0f / std::sqrt(total / float(size) + eps);
    for (i = 0; i + WIDTH <= size; i += WIDTH) {
        store(out + i, multiply(multiply(load(x + i), spread(factor)), load(gain + i)));
    }
    for (; i < size; ++i) out[i] = x[i] * factor * gain[i];
}

// e^x, with x limited to -87 .. 88, where the result is a normal number. The relative error is at
// most 2e-7: x = n ln 2 + r, and a Taylor series gives e^r for |r| <= ln 2 / 2.
CS336_KERNEL Floats exponential(Floats x) {
    x = larger(spread(-87.0f), smaller(spread(88.0f), x));  // NaN stays NaN
    const Floats shift = spread(12582912.0f);               // see `quantize`
    const Floats shifted = multiply_add(x, spread(1.44269504f), shift);
    const Floats n = subtract(shifted, shift);
    // ln 2 in two parts, the first with few bits, so that its product with n is exact.
    Floats r = multiply_add(n, spread(-0.693359375f), x);
    r = multiply_add(n, spread(2.12194440e-4f), r);
    Floats power = spread(1.0f / 5040);
    for (const float divisor : {720.0f, 120.0f, 24.0f, 6.0f, 2.0f, 1.0f, 1.0f}) {
        power = multiply_add(power, r, spread(1.0f / divisor));
    }
    return scale_by_power(power, shifted);
}

// out = x * sigmoid(x), times `gate` unless it is null; out may be x.
CS336_TARGET void activate(const float* x, const float* gate, size_t size, float* out) {
    for (size_t i = 0; i < size; i += WIDTH) {
        float rest[WIDTH] = {0};
        const bool whole = i + WIDTH <= size;
        if (!whole) std::memcpy(rest, x + i, (size - i) * sizeof(float));
        const Floats values = load(whole ? x + i : rest);
        const Floats one = spread(1.0f);
        Floats result = divide(values, add(one, exponential(subtract(spread(0.0f), values))));
        if (gate) {
            if (!whole) std::memcpy(rest, gate + i, (size - i) * sizeof(float));
            result = multiply(result, load(whole ? gate + i : rest));
        }
        store(whole ? out + i : rest, result);
        if (!whole) std::memcpy(out + i, rest, (size - i) * sizeof(float));
    }
}

// out[0 .. VECTORS * WIDTH) = the sum of slots' values, each times its weight.
template <size_t VECTORS>
CS336_KERNEL void add_values(const float* weights, const float* values, size_t slots, size_t d_head,
                             float factor, float* out) {
    // Two sums, because each addition waits for the previous one.
    Floats even[VECTORS], odd[VECTORS];
    for (size_t v = 0; v < VECTORS; ++v) even[v] = odd[v] = spread(0.0f);
    size_t slot = 0;
    for (; slot + 2 <= slots; slot += 2, values += 2 * d_head) {
        const Floats first = spread(weights[slot]), second = spread(weights[slot + 1]);
        for (size_t v = 0; v < VECTORS; ++v) {
            even[v] = multiply_add(first, load(values + v * WIDTH), even[v]);
            odd[v] = multiply_add(second, load(values + d_head + v * WIDTH), odd[v]);
        }
    }
    if (slot < slots) {
        for (size_t v = 0; v < VECTORS; ++v) {
            even[v] = multiply_add(spread(weights[slot]), load(values + v * WIDTH), even[v]);
        }
    }
    for (size_t v = 0; v < VECTORS; ++v) {
        store(out + v * WIDTH, multiply(add(even[v], odd[v]), spread(factor)));
    }
}

// The attention of a query, already divided by sqrt(d_head), to the first `slots` slots of a head.
// `scores` is scratch memory for that many numbers, rounded up to a multiple of KEY_BLOCK.
CS336_TARGET void attend(const float* query, const float* keys, const float* values, size_t slots,
                         size_t d_head, float* scores, float* out) {
    constexpr size_t VECTORS = KEY_BLOCK / WIDTH;
    const size_t end = (slots + KEY_BLOCK - 1) / KEY_BLOCK * KEY_BLOCK;
    for (size_t start = 0; start < end; start += KEY_BLOCK) {
        Floats even[VECTORS], odd[VECTORS];
        for (size_t v = 0; v < VECTORS; ++v) even[v] = odd[v] = spread(0.0f);
        const float* block = keys + start * d_head;
        size_t i = 0;
        for (; i + 2 <= d_head; i += 2, block += 2 * KEY_BLOCK) {
            const Floats first = spread(query[i]), second = spread(query[i + 1]);
            for (size_t v = 0; v < VECTORS; ++v) {
                even[v] = multiply_add(first, load(block + v * WIDTH), even[v]);
                odd[v] = multiply_add(second, load(block + KEY_BLOCK + v * WIDTH), odd[v]);
            }
        }
        if (i < d_head) {
            for (size_t v = 0; v < VECTORS; ++v) {
                even[v] = multiply_add(spread(query[i]), load(block + v * WIDTH), even[v]);
            }
        }
        for (size_t v = 0; v < VECTORS; ++v) {
            store(scores + start + v * WIDTH, add(even[v], odd[v]));
        }
    }
    for (size_t slot = slots; slot < end; ++slot) scores[slot] = -INFINITY;  // unused slots
    Floats top = spread(-INFINITY);
    for (size_t i = 0; i < end; i += WIDTH) top = larger(load(scores + i), top);
    const Floats most = spread(largest(top));
    Floats total = spread(0.0f);
    for (size_t i = 0; i < end; i += WIDTH) {
        // Unused slots add e^-87 each, which rounding removes, because the largest term is 1.
        const Floats weights = exponential(subtract(load(scores + i), most));
        store(scores + i, weights);
        total = add(total, weights);
    }
    const float factor = 1.0f / sum(total);
    size_t i = 0;
    for (; i + 4 * WIDTH <= d_head; i += 4 * WIDTH) {
        add_values<4>(scores, values + i, slots, d_head, factor, out + i);
    }
    for (; i + 2 * WIDTH <= d_head; i += 2 * WIDTH) {
        add_values<2>(scores, values + i, slots, d_head, factor, out + i);
    }
    for (; i + WIDTH <= d_head; i += WIDTH) {
        add_values<1>(scores, values + i, slots, d_head, factor, out + i);
    }
    for (; i < d_head; ++i) {
        float weighted = 0;
        for (size_t slot = 0; slot < slots; ++slot) {
            weighted += scores[slot] * values[slot * d_head + i];
        }
        out[i] = weighted * factor;
    }
}

constexpr Kernels KERNELS = {
    multiply,
    round_to_bfloat16,
    quantize<int8_t, 127>,
    quantize<int16_t, 32767>,
    normalize,
    activate,
    attend,
};

#undef CS336_KERNEL

#endif
