# distutils: language = c++
"""Binding of native/inference/transformer.hpp: the logits of a model, a few tokens at a time.

The binding checks shapes and tokens, and handles types, memory and the GIL.
"""

import numpy as np

from libc.stdint cimport int16_t, int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from cs336_basics._support.simd_levels cimport (
    SimdLevel, available_levels, default_level, simd_level_of,
)

from cs336_basics.model.shapes import named_shapes


cdef extern from "base/compiler.hpp" namespace "cs336" nogil:
    int64_t load_relaxed(const int64_t* number)


cdef extern from "inference/transformer.hpp" namespace "cs336" nogil:
    cdef enum class Precision:
        FLOAT32, BFLOAT16, INT8

    cdef enum class Norm:
        PRE, POST, NONE

    cdef struct Matrix:
        size_t rows, columns
        Precision precision
        const void* weights
        const float* scales
        const float* bias

    cdef struct Inputs:
        size_t tokens
        const float* values
        const int16_t* integers
        const float* scales

    cdef struct Kernels:
        void (*multiply)(const Matrix& matrix, size_t first, size_t last, const Inputs& inputs,
                         float* out, size_t stride) noexcept nogil
        float (*round_to_int16)(const float* x, size_t size, int16_t* out) noexcept nogil
        void (*activate)(const float* x, const float* gate, size_t size, float* out) noexcept nogil

    const Kernels& kernels_of(SimdLevel simd_level)

    cdef cppclass Shape:
        size_t vocab_size, context_length, d_model, num_layers, num_heads, kv_heads, d_head, d_ff
        Norm norm
        float norm_eps, embedding_scale, soft_cap

    cdef cppclass RoundedMatrix:
        void set(const float* weights, const float* bias, size_t rows, size_t columns,
                 Precision precision) except +
        size_t num_bytes()
        void set_memory(uint8_t* rounded) except +
        void round(const Kernels& kernels, size_t first, size_t last)
        const Matrix& matrix()

    cdef cppclass Layer:
        RoundedMatrix q, k, v, output, w1, w2, w3
        const float* ln1
        const float* ln2
        const float* q_norm
        const float* k_norm

    cdef cppclass Transformer:
        Transformer(const Shape& shape, size_t num_texts, int num_threads,
                    SimdLevel simd_level) except +
        vector[Layer] layers
        RoundedMatrix head
        const float* embeddings
        const float* bigrams
        const float* bigram_scale
        const float* final_norm
        const float* cos
        const float* sin
        void round_weights() except +
        void forward(const int64_t* ids, const int64_t* texts, const int64_t* positions,
                     const int64_t* rows, size_t count, const int64_t* wanted, size_t num_wanted,
                     float* logits) except +


PRECISIONS = {"float32": <int>Precision.FLOAT32, "bfloat16": <int>Precision.BFLOAT16,
              "int8": <int>Precision.INT8}
NORMS = {"pre": <int>Norm.PRE, "post": <int>Norm.POST, "none": <int>Norm.NONE}


def simd_levels():
    """Return the names of the SIMD levels that this build and this CPU support, slowest first."""
    return list(available_levels())


def default_simd_level():
    """Return the name of the SIMD level that is used by default."""
    return default_level()


def product(const float[:, ::1] weight not None, const float[:, ::1] x not None,
            str precision not None, simd_level=None):
    """Return the products x W^T, (tokens, rows) in float32, as `Inference` computes them.

    Args:
        weight: The matrix W, (rows, columns), which is rounded to the precision.
        x: Vectors, (tokens, columns). With int8 weights, each is rounded to 16-bit integers and a
            scale.
        precision: "float32", "bfloat16" or "int8".
        simd_level: Name in `simd_levels()`. Defaults to `default_simd_level()`.
    """
    cdef size_t rows = weight.shape[0], columns = weight.shape[1], tokens = x.shape[0], token
    cdef Kernels kernels = kernels_of(simd_level_of(simd_level))
    cdef RoundedMatrix matrix
    cdef Inputs inputs
    cdef int16_t[:, ::1] integers = np.empty((tokens, columns), np.int16)
    cdef float[::1] scales = np.empty(tokens, np.float32)
    cdef float[:, ::1] out = np.empty((tokens, rows), np.float32)
    if <size_t>x.shape[1] != columns or rows == 0 or columns == 0 or tokens == 0:
        raise ValueError("weight and x must have the same number of columns, and no dimension of 0")
    matrix.set(&weight[0, 0], NULL, rows, columns, <Precision><int>PRECISIONS[precision])
    cdef uint8_t[::1] memory = np.empty(max(matrix.num_bytes(), <size_t>1), np.uint8)
    matrix.set_memory(&memory[0])
    with nogil:
        matrix.round(kernels, 0, rows)
        for token in range(tokens):
            scales[token] = kernels.round_to_int16(&x[token, 0], columns, &integers[token, 0])
        inputs = Inputs(tokens, &x[0, 0], &integers[0, 0], &scales[0])
        kernels.multiply(matrix.matrix(), 0, rows, inputs, &out[0, 0], rows)
    return np.asarray(out)


def silu(const float[::1] x not None, simd_level=None):
    """Return x * sigmoid(x) as `Inference` computes it."""
    cdef Kernels kernels = kernels_of(simd_level_of(simd_level))
    cdef float[::1] out = np.empty_like(x)
    kernels.activate(&x[0], NULL, x.shape[0], &out[0])
    return np.asarray(out)


cdef class Inference:
    """A trained model and the keys and values of the texts that it has seen.

    Args:
        config: The ModelConfig.
        weights: Maps each name in the model's state dict to a float32 array, C-contiguous. The
            arrays with the precision "float32" are not copied, nor are norms and embeddings.
        angles: The arrays (cos, sin), (context_length, d_head / 2) in float32, or None without
            rotary embeddings.
        num_texts: Number of texts.
        precision: "float32", "bfloat16" or "int8", to which the matrices are rounded.
        num_threads: Maximum number of threads.
        simd_level: Name in `simd_levels()`. Defaults to `default_simd_level()`.

    Raises:
        ValueError: If an array does not have its shape, or a number is not positive.
    """

    cdef unique_ptr[Transformer] model
    cdef object kept  # the arrays to which the model has pointers
    cdef dict weights
    cdef int64_t vocab_size, num_texts, context_length, bigram_rows
    cdef Precision precision
    cdef bint busy

    def __cinit__(self, config, dict weights not None, angles, size_t num_texts,
                  str precision not None, int num_threads, simd_level=None):
        cdef Shape shape
        cdef SimdLevel level = simd_level_of(simd_level)
        cdef Layer* layer
        cdef str place
        check_shapes(config, weights, angles)
        if num_texts < 1 or num_threads < 1:
            raise ValueError(f"num_texts {num_texts} or num_threads {num_threads} is not positive")
        numbers = config.num_layers * num_texts * config.kv_heads * config.d_head
        if numbers * (config.context_length + 16) >= 1 << 60:
            raise MemoryError
        self.num_texts = num_texts
        self.context_length = config.context_length
        self.bigram_rows = config.bigram_rows
        shape.vocab_size = self.vocab_size = config.vocab_size
        shape.context_length = config.context_length
        shape.d_model = config.d_model
        shape.num_layers = config.num_layers
        shape.num_heads = config.num_heads
        shape.kv_heads = config.kv_heads
        shape.d_head = config.d_head
        shape.d_ff = config.d_ff
        shape.norm = <Norm><int>NORMS[config.norm]
        shape.norm_eps = config.norm_eps
        shape.embedding_scale = config.embedding_factor
        shape.soft_cap = config.logit_soft_cap or 0
        self.precision = <Precision><int>PRECISIONS[precision]
        self.weights, self.kept = weights, [angles]
        self.model.reset(new Transformer(shape, num_texts, num_threads, level))
        self.model.get().embeddings = self.vector_of("token_embeddings.weight")
        self.model.get().bigrams = self.vector_of("bigram_embeddings.weight")
        self.model.get().bigram_scale = self.vector_of("bigram_embeddings.scale")
        self.model.get().final_norm = self.vector_of("ln_final.weight")
        head = "lm_head" if "lm_head.weight" in weights else "token_embeddings"
        self.set_matrix(&self.model.get().head, head)
        if angles is not None:
            self.model.get().cos = self.pointer(angles[0])
            self.model.get().sin = self.pointer(angles[1])
        for number in range(config.num_layers):
            layer = &self.model.get().layers[number]
            place = f"layers.{number}"
            self.set_matrix(&layer.q, f"{place}.attn.q_proj")
            self.set_matrix(&layer.k, f"{place}.attn.k_proj")
            self.set_matrix(&layer.v, f"{place}.attn.v_proj")
            self.set_matrix(&layer.output, f"{place}.attn.output_proj")
            self.set_matrix(&layer.w1, f"{place}.ffn.w1")
            self.set_matrix(&layer.w2, f"{place}.ffn.w2")
            self.set_matrix(&layer.w3, f"{place}.ffn.w3")
            layer.ln1 = self.vector_of(f"{place}.ln1.weight")
            layer.ln2 = self.vector_of(f"{place}.ln2.weight")
            layer.q_norm = self.vector_of(f"{place}.attn.q_norm.weight")
            layer.k_norm = self.vector_of(f"{place}.attn.k_norm.weight")
        with nogil:
            self.model.get().round_weights()

    cdef const float* pointer(self, array) except? NULL:
        """Return a pointer to the numbers of an array, which is kept as long as this object."""
        cdef const float[::1] numbers = array.reshape(-1)
        self.kept.append(numbers)
        return &numbers[0]

    cdef const float* vector_of(self, str name) except? NULL:
        """Return a pointer to the weights of this name, or NULL if the model has none."""
        return self.pointer(self.weights[name]) if name in self.weights else NULL

    cdef int set_matrix(self, RoundedMatrix* matrix, str name) except -1:
        """Set the matrix of a layer. It stays without rows if the model has none."""
        cdef const float* weights = self.vector_of(name + ".weight")
        if weights != NULL:
            rows, columns = self.weights[name + ".weight"].shape
            matrix.set(weights, self.vector_of(name + ".bias"), rows, columns, self.precision)

    def forward(self, const int64_t[::1] ids not None, const int64_t[::1] texts not None,
                const int64_t[::1] positions not None, const int64_t[::1] wanted not None,
                float[:, ::1] logits not None, const int64_t[::1] rows=None):
        """Add tokens to texts, and write the logits for the token after each wanted one.

        Args:
            ids, texts, positions: The id of each token, the index of its text and its position in
                it, below the context length. The earlier positions of the text must have been
                added before, or precede it in the arrays.
            wanted: Increasing indexes of tokens.
            logits: The output, shape (len(wanted), vocab_size).
            rows: The row of each token in the table of bigrams, if the model has one.

        Raises:
            ValueError: If the arrays have other shapes, or a number is out of range.
            RuntimeError: If another thread is in this method.
        """
        cdef Py_ssize_t count = ids.shape[0], i
        cdef vector[int64_t] c_ids, c_texts, c_positions, c_wanted, c_rows
        if self.busy:
            raise RuntimeError("an Inference can be used by one thread at a time")
        if (rows is not None) != (self.bigram_rows > 0):
            raise ValueError("rows must be given if the model has bigrams, and only then")
        if logits.shape[0] != wanted.shape[0] or logits.shape[1] != self.vocab_size:
            raise ValueError(f"logits must have the shape {(wanted.shape[0], self.vocab_size)}")
        copy_below("ids", ids, count, self.vocab_size, c_ids)
        copy_below("texts", texts, count, self.num_texts, c_texts)
        copy_below("positions", positions, count, self.context_length, c_positions)
        copy_below("wanted", wanted, wanted.shape[0], count, c_wanted)
        if rows is not None:
            copy_below("rows", rows, count, self.bigram_rows, c_rows)
        for i in range(wanted.shape[0] - 1):
            if c_wanted[i] >= c_wanted[i + 1]:
                raise ValueError("wanted must increase")
        if count == 0:
            return
        self.busy = True
        try:
            with nogil:
                self.model.get().forward(
                    c_ids.data(), c_texts.data(), c_positions.data(), c_rows.data(), count,
                    c_wanted.data(), c_wanted.size(),
                    &logits[0, 0] if c_wanted.size() else NULL)
        finally:
            self.busy = False


cdef int copy_below(str name, const int64_t[::1] numbers, Py_ssize_t count, int64_t limit,
                    vector[int64_t]& copies) except -1:
    """Copy `count` numbers, which must be below a limit.

    What is checked is the copy, because another thread may change the array.
    """
    cdef Py_ssize_t i
    cdef int64_t number
    if numbers.shape[0] != count:
        raise ValueError(f"{name} must have {count} numbers, got {numbers.shape[0]}")
    copies.reserve(count)
    for i in range(count):
        number = load_relaxed(&numbers[i])
        if not 0 <= number < limit:
            raise ValueError(f"{name} must be from 0 to {limit - 1}, got {number}")
        copies.push_back(number)
    return 0


cdef int check_shapes(config, dict weights, angles) except -1:
    """Raise ValueError unless the arrays have the shapes that a configuration determines."""
    if {name: array.shape for name, array in weights.items()} != dict(named_shapes(config)):
        raise ValueError("the weights do not have the names and shapes of the configuration")
    table = config.context_length, config.d_head // 2
    if angles is not None and [array.shape for array in angles] != [table, table]:
        raise ValueError(f"angles must be two arrays of shape {table}")
    return 0
