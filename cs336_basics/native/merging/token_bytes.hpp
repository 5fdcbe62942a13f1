// The bytes of every token that training has made so far, and the tie rule that compares them.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace cs336 {

// Tokens 0 to 255 are the bytes; then come the merged tokens in the order of the merges, those of a
// vocabulary that is continued first.
class TokenBytes {
  public:
    // Without `byte_ranks` the greater of two tokens is the one with the greater bytes. With them
    // it is the one of the smaller rank: of a byte the rank given here (256 of them), of a merged
    // token its id.
    explicit TokenBytes(const uint8_t* byte_ranks) : by_rank_(byte_ranks != nullptr) {
        for (int byte = 0; byte < 256; ++byte) {
            bytes_.push_back(uint8_t(byte));
            offsets_.push_back(size_t(byte));
            lengths_.push_back(1);
            ties_.push_back(by_rank_ ? ~uint64_t{byte_ranks[byte]} : uint64_t(byte) << 56);
        }
    }

    uint32_t length(uint32_t token) const { return lengths_[token]; }

    // The first eight bytes as an integer, or the rank inverted: of two tokens with different keys
    // the greater key wins.
    uint64_t tie_key(uint32_t token) const { return ties_[token]; }

    uint32_t size() const { return uint32_t(lengths_.size()); }

    // Add the token that is `left` followed by `right`; returns its id.
    uint32_t add(uint32_t left, uint32_t right) {
        const size_t offset = bytes_.size(), length = size_t{lengths_[left]} + lengths_[right];
        bytes_.resize(offset + length);
        std::memcpy(&bytes_[offset], &bytes_[offsets_[left]], lengths_[left]);
        std::memcpy(&bytes_[offset + lengths_[left]], &bytes_[offsets_[right]], lengths_[right]);
        return finish(offset, length);
    }

    // Add a token by its bytes; returns its id.
    uint32_t add(const uint8_t* bytes, size_t length) {
        const size_t offset = bytes_.size();
        bytes_.insert(bytes_.end(), bytes, bytes + length);
        return finish(offset, length);
    }
    // < 0, 0 or > 0: as Python compares `bytes`, or by rank.
    int compare(uint32_t one, uint32_t other) const {
        if (ties_[one] != ties_[other]) return ties_[one] < ties_[other] ? -1 : 1;
        const int order = std::memcmp(&bytes_[offsets_[one]], &bytes_[offsets_[other]],
                                      std::min(lengths_[one], lengths_[other]));
        if (order != 0) return order;
        return (lengths_[one] > lengths_[other]) - (lengths_[one] < lengths_[other]);
    }

  private:
    // Index a token whose bytes are the last ones.
    uint32_t finish(size_t offset, size_t length) {
        const uint32_t token = size();
        offsets_.push_back(offset);
        lengths_.push_back(uint32_t(length));
        uint64_t prefix = 0;
        for (size_t i = 0; i < 8; ++i) prefix = prefix << 8 | (i < length ? bytes_[offset + i] : 0);
        ties_.push_back(by_rank_ ? ~uint64_t{token} : prefix);
        return token;
    }

    const bool by_rank_;
    std::vector<uint8_t> bytes_;
    std::vector<size_t> offsets_;    // token t is bytes_[offsets_[t]] and those that follow
    std::vector<uint32_t> lengths_;  // bytes
    std::vector<uint64_t> ties_;
};

}  // namespace cs336
