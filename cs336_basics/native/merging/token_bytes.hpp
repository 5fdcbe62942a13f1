// TokenBytes: the bytes of all tokens during training, and the tie rule that compares tokens.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace cs336 {

// Tokens 0 to 255 are the bytes. The merged tokens follow in merge order, starting with the
// merged tokens of an existing vocabulary.
class TokenBytes {
  public:
    // If `byte_ranks` is null, tokens are compared by their bytes. Otherwise, the token with the
    // lower rank is greater. The rank of a byte is byte_ranks[byte]; the rank of a merged token is
    // its id.
    explicit TokenBytes(const uint8_t* byte_ranks) : by_rank_(byte_ranks != nullptr) {
        for (int byte = 0; byte < 256; ++byte) {
            bytes_.push_back(uint8_t(byte));
            offsets_.push_back(size_t(byte));
            lengths_.push_back(1);
            ties_.push_back(by_rank_ ? ~uint64_t{byte_ranks[byte]} : uint64_t(byte) << 56);
        }
    }

    uint32_t length(uint32_t token) const { return lengths_[token]; }

    std::string bytes(uint32_t token) const {
        return {reinterpret_cast<const char*>(&bytes_[offsets_[token]]), lengths_[token]};
    }

    // The first eight bytes as an integer, or the inverted rank. If two keys differ, the higher key
    // belongs to the greater token.
    uint64_t tie_key(uint32_t token) const { return ties_[token]; }

    uint32_t size() const { return uint32_t(lengths_.size()); }

    // Add the token `left` + `right`. Returns its id.
    uint32_t add(uint32_t left, uint32_t right) {
        const size_t offset = bytes_.size(), length = size_t{lengths_[left]} + lengths_[right];
        bytes_.resize(offset + length);
        std::memcpy(&bytes_[offset], &bytes_[offsets_[left]], lengths_[left]);
        std::memcpy(&bytes_[offset + lengths_[left]], &bytes_[offsets_[right]], lengths_[right]);
        return finish(offset, length);
    }

    // Add a token by its bytes. Returns its id.
    uint32_t add(const std::string& bytes) {
        const size_t offset = bytes_.size();
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
        return finish(offset, bytes.size());
    }

    // Compare two tokens by the tie rule; the result is < 0, 0 or > 0.
    int compare(uint32_t one, uint32_t other) const {
        if (ties_[one] != ties_[other]) return ties_[one] < ties_[other] ? -1 : 1;
        const int order = std::memcmp(&bytes_[offsets_[one]], &bytes_[offsets_[other]],
                                      std::min(lengths_[one], lengths_[other]));
        if (order != 0) return order;
        return (lengths_[one] > lengths_[other]) - (lengths_[one] < lengths_[other]);
    }

  private:
    // Index a token whose bytes are the last `length` in `bytes_`.
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
    std::vector<size_t> offsets_;    // token t starts at bytes_[offsets_[t]]
    std::vector<uint32_t> lengths_;  // bytes
    std::vector<uint64_t> ties_;
};

}  // namespace cs336
