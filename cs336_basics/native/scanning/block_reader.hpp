// BlockReader: cuts files at safe cuts into blocks that can be split independently.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.hpp"
#include "base/input_file.hpp"
#include "base/memory.hpp"
#include "scanning/safe_cuts.hpp"

namespace cs336 {

class BlockReader {
  public:
    // The state of one thread.
    struct ReadState {
        Buffer buffer;
        InputFile file;
        size_t file_index = SIZE_MAX;
    };

    // The text of a block. WORD_PADDING bytes after it are readable.
    struct Text {
        uint8_t* data;
        size_t size;
        size_t file;         // index of the file
        uint64_t offset;     // of `data` in the file
        uint64_t num_bytes;  // for progress: the sum over all blocks is the files' total size
    };

    // `tokens` must outlive this object. If the first safe cut after a block, or the end of the
    // file, is more than `max_piece` bytes away, the text is rejected before it fills the memory.
    // Throws std::invalid_argument if `block_size` is not from 1 to 2^48.
    BlockReader(const SpecialTokens& tokens, const Scanner& scanner, std::vector<std::string> paths,
                std::vector<uint64_t> sizes, size_t block_size, size_t max_piece)
        : cuts_(tokens, scanner),
          paths_(std::move(paths)),
          sizes_(std::move(sizes)),
          block_size_(block_size),
          max_piece_(max_piece) {
        if (block_size == 0 || block_size > uint64_t{1} << 48) {
            throw std::invalid_argument("block_size must be from 1 to 2^48");
        }
        size_t blocks = 0;
        for (const uint64_t size : sizes_) {
            first_block_.push_back(blocks);
            blocks += size_t((size + block_size - 1) / block_size);
        }
        first_block_.push_back(blocks);
    }

    size_t num_blocks() const { return first_block_.back(); }
    // The total size of the files.
    uint64_t num_bytes() const {
        return std::accumulate(sizes_.begin(), sizes_.end(), uint64_t{0});
    }

    // Read the text of a block, from the first safe cut in the block to the first safe cut at
    // or after its end. The first block of a file starts at offset 0. If a later block
    // contains no safe cut, its text is empty.
    Failure read(size_t block, ReadState& state, const std::atomic<bool>& cancelled,
                 Text& text) const {
        const auto after = std::upper_bound(first_block_.begin(), first_block_.end(), block);
        const size_t file = after - first_block_.begin() - 1;
        const uint64_t file_size = sizes_[file];
        const uint64_t low = uint64_t(block - first_block_[file]) * block_size_;
        const uint64_t high = std::min<uint64_t>(file_size, low + block_size_);
        if (state.file_index != file) {
            state.file_index = SIZE_MAX;
            if (const int code = state.file.open(paths_[file])) {
                return {Failure::SYSTEM, file, 0, 0, code, ""};
            }
            state.file_index = file;
        }
        View view = {low - std::min<uint64_t>(low, cuts_.margin()), 0};
        Failure failure = read_to(state, file, view, high + cuts_.margin() + BEYOND);
        if (failure.kind) return failure;

        // The text between two cuts belongs to the block that contains its start.
        size_t start = size_t(low - view.origin), end = size_t(high - view.origin);
        if (low > 0) start = cuts_.first(state.buffer.data(), view.size, start, end);
        if (start < end) {
            failure = find_end(state, file, cancelled, view, end);
            if (failure.kind) return failure;
        }
        text = {state.buffer.data() + start, end - start, file, view.origin + start, high - low};
        return {};
    }

  private:
    // The number of bytes to read beyond a block at first. A safe cut is rarely further away.
    static constexpr size_t BEYOND = 4096;
    // The maximum step in a text without a cut; the read can be cancelled between steps.
    static constexpr size_t MAX_STEP = size_t{16} << 20;

    // The part of a file that is in the buffer.
    struct View {
        uint64_t origin;  // offset in the file
        size_t size;
    };

    // Move `end` to the first safe cut at or after it, or to the end of the file. Reads more of the
    // file as needed.
    Failure find_end(ReadState& state, size_t file, const std::atomic<bool>& cancelled, View& view,
                     size_t& end) const {
        const uint64_t from = view.origin + end;
        for (;;) {
            const bool whole = view.origin + view.size == sizes_[file];
            // Cuts before this offset depend only on bytes in the buffer.
            const size_t known = whole ? view.size : view.size - cuts_.margin();
            end = cuts_.first(state.buffer.data(), view.size, end, known);
            if (view.origin + end - from > max_piece_) {
                return {Failure::TOO_LONG, file, from, max_piece_, 0, ""};
            }
            if (end < known || whole) return {};
            if (cancelled) throw Cancelled();
            const Failure failure =
                read_to(state, file, view,
                        view.origin + view.size + std::clamp(view.size, BEYOND, MAX_STEP));
            if (failure.kind) return failure;
        }
    }

    // Extend the view up to offset `target` or the end of the file.
    Failure read_to(ReadState& state, size_t file, View& view, uint64_t target) const {
        const uint64_t from = view.origin + view.size;
        const uint64_t to = std::min(target, sizes_[file]);
        state.buffer.reserve(size_t(to - view.origin), view.size);
        const int64_t got =
            state.file.read(from, state.buffer.data() + view.size, size_t(to - from));
        if (got < 0) return {Failure::SYSTEM, file, from, 0, int(-got), ""};
        view.size += size_t(got);
        if (from + uint64_t(got) < to) {
            // The file became shorter; its new end may even be before `from`.
            const uint64_t end = std::min(from + uint64_t(got), state.file.size());
            return {Failure::SHORTER, file, end, sizes_[file], 0, ""};
        }
        return {};
    }

    const SafeCuts cuts_;
    const std::vector<std::string> paths_;
    const std::vector<uint64_t> sizes_;
    std::vector<size_t> first_block_;
    const size_t block_size_;
    const size_t max_piece_;
};

}  // namespace cs336
