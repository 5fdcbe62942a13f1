// Words: the tokens of a vocabulary and its merges, as ids. It owns the bytes of the tokens.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "base/hashing.hpp"
#include "base/word_key.hpp"
#include "unicode/text_view.hpp"
#include "word_merging/token_ids.hpp"

namespace cs336 {

class Words {
  public:
    static constexpr uint32_t NO_ID = TokenIds::NO_ID;

    // Room for tokens of `num_bytes` bytes in total, and for about this many tokens.
    // Memory that no token uses is not touched, so the operating system does not commit it.
    explicit Words(size_t num_bytes, size_t num_tokens = 0)
        : bytes_(new uint8_t[num_bytes + SLACK]) {
        tokens_.reserve(num_tokens);
        ids_.reserve(num_tokens);
    }
    Words(const Words&) = delete;
    Words& operator=(const Words&) = delete;

    // Tokens are added in any order: first all with these two functions, then `index` is called.
    // The memory for the next token:
    uint8_t* room() { return bytes_.get() + num_bytes_; }
    // Make the first bytes there a token.
    void add(size_t size, uint32_t id) {
        tokens_.push_back({room(), size});
        ids_.push_back(id);
        num_bytes_ += size;
    }

    // Allow `find` and `add_more`. Returns false if a token is empty or two tokens are the same.
    bool index() {
        index_ = std::make_unique<TokenIds>(tokens_.size() + most_more());
        return index_->insert_all(tokens_, ids_);
    }
    // The id of a token, or NO_ID.
    uint32_t find(const uint8_t* bytes, size_t size) const { return index_->find(bytes, size); }
    // Like `find`, for the key of at most MAX_SHORT_WORD bytes with the seed of the process.
    CS336_INLINE uint32_t find(const WordKey& key) const { return index_->find(key); }
    CS336_INLINE void prefetch(const WordKey& key) const { index_->prefetch(key); }
    // Add a few tokens after `index`. Returns false if there are too many, or a token is empty or
    // not new.
    bool add_more(const std::vector<std::pair<std::string, uint32_t>>& more) {
        if (more.size() > most_more()) return false;
        std::vector<TextSpan> tokens;
        std::vector<uint32_t> ids;
        for (const auto& [bytes, id] : more) {
            more_bytes_.push_back(bytes);
            const auto* data = reinterpret_cast<const uint8_t*>(more_bytes_.back().data());
            tokens.push_back({data, bytes.size()});
            ids.push_back(id);
        }
        tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
        ids_.insert(ids_.end(), ids.begin(), ids.end());
        return index_->insert_all(tokens, ids);
    }

    // Allow `index_of`. Returns false if two tokens have the same id.
    bool index_ids() {
        const uint32_t highest = ids_.empty() ? 0 : *std::max_element(ids_.begin(), ids_.end());
        size_ = ids_.empty() ? 0 : size_t{highest} + 1;
        if (size_ <= 8 * ids_.size() + (size_t{1} << 20)) {
            by_id_.assign(size_, NO_INDEX);
            for (size_t i = 0; i < ids_.size(); ++i) {
                if (by_id_[ids_[i]] != NO_INDEX) return false;
                by_id_[ids_[i]] = uint32_t(i);
            }
            return true;
        }
        // The ids have huge gaps.
        sorted_.resize(ids_.size());
        for (size_t i = 0; i < ids_.size(); ++i) sorted_[i] = {ids_[i], uint32_t(i)};
        std::sort(sorted_.begin(), sorted_.end());
        for (size_t i = 1; i < sorted_.size(); ++i) {
            if (sorted_[i - 1].first == sorted_[i].first) return false;
        }
        return true;
    }

    // Look up the merges, given as two tokens for each. Returns false if a left, right or joined
    // token is unknown, or a pair occurs twice.
    bool set_merges(const std::vector<TextSpan>& pairs) {
        merges_.resize(pairs.size() / 2 * 3);
        return index_->find_merges(pairs, merges_.data()) && !has_repeated_pairs();
    }

    // Find the merges with which tiktoken would join the tokens, whose ids are their ranks: the
    // last merge of each token that has one, in the order of the ids. Returns false if a byte has
    // no token. Call `index` and `index_ids` before.
    bool set_merges_of_ranks() {
        for (int byte = 0; byte < 256; ++byte) {
            const uint8_t single = uint8_t(byte);
            if (find(&single, 1) == NO_ID) return false;
        }
        std::vector<uint32_t> order(ids_);
        std::sort(order.begin(), order.end());
        std::vector<TextSpan> pairs;
        pairs.reserve(2 * order.size());
        RankSplitter splitter(*index_);
        for (const uint32_t id : order) {
            const TextSpan token = token_of(id);
            const size_t middle = splitter.split(token.data, token.size);
            if (!middle) continue;
            pairs.push_back({token.data, middle});
            pairs.push_back({token.data + middle, token.size - middle});
        }
        return set_merges(pairs);
    }

    size_t num_tokens() const { return tokens_.size(); }
    // The highest id plus one.
    size_t size() const { return size_; }
    TextSpan token(size_t i) const { return tokens_[i]; }
    uint32_t id(size_t i) const { return ids_[i]; }
    // The index of the token with an id, or NO_INDEX.
    uint32_t index_of(uint32_t id) const {
        if (sorted_.empty()) return id < by_id_.size() ? by_id_[id] : NO_INDEX;
        const auto found =
            std::lower_bound(sorted_.begin(), sorted_.end(), std::pair<uint32_t, uint32_t>(id, 0));
        return found != sorted_.end() && found->first == id ? found->second : NO_INDEX;
    }
    TextSpan token_of(uint32_t id) const { return tokens_[index_of(id)]; }
    // The ids of the left, right and joined tokens of each merge, by rank.
    const std::vector<uint32_t>& merges() const { return merges_; }

    static constexpr uint32_t NO_INDEX = UINT32_MAX;

  private:
    static constexpr size_t SLACK = 16;

    size_t most_more() const { return tokens_.size() / 8 + 256; }

    bool has_repeated_pairs() const {
        const size_t num_merges = merges_.size() / 3;
        const HashSeed& seed = process_hash_seed();
        int bits = 4;
        while ((size_t{1} << bits) < 2 * num_merges) ++bits;
        std::vector<uint32_t> slots(size_t{1} << bits, NO_INDEX);
        for (size_t rank = 0; rank < num_merges; ++rank) {
            const uint32_t left = merges_[3 * rank], right = merges_[3 * rank + 1];
            size_t i = hash_pair(seed, left, right) >> (64 - bits);
            for (; slots[i] != NO_INDEX; i = (i + 1) & (slots.size() - 1)) {
                const uint32_t* const other = &merges_[3 * size_t{slots[i]}];
                if (other[0] == left && other[1] == right) return true;
            }
            slots[i] = uint32_t(rank);
        }
        return false;
    }

    const std::unique_ptr<uint8_t[]> bytes_;
    size_t num_bytes_ = 0;
    std::deque<std::string> more_bytes_;
    std::vector<TextSpan> tokens_;
    std::vector<uint32_t> ids_;
    std::unique_ptr<TokenIds> index_ = std::make_unique<TokenIds>(0);
    size_t size_ = 0;
    std::vector<uint32_t> by_id_;                        // index by id, or
    std::vector<std::pair<uint32_t, uint32_t>> sorted_;  // ids and indexes
    std::vector<uint32_t> merges_;
};

}  // namespace cs336
