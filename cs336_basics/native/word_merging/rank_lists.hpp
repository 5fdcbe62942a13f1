// RankLists: the positions of pairs in a long word, in a list for each rank.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <stdexcept>
#include <vector>

#include "base/memory.hpp"

namespace cs336 {

// Empty an array and reserve memory. Request huge pages before the first use: with small pages, a
// 10 MB word takes twelve times as long as a 1 MB word.
template <class T>
void reserve_for_long_word(std::vector<T>& array, size_t size) {
    array.clear();
    array.reserve(size);
    ask_for_huge_pages(array.data(), size * sizeof(T));
}

// Positions are appended to the list of their rank, and taken from the list of the lowest rank.
// Both need constant time for each position; a heap contains only the ranks.
class RankLists {
  public:
    static constexpr uint32_t END = UINT32_MAX;

    // Prepare for at most `num_positions` in all lists, taken ones included. The lists are empty.
    void start(size_t num_ranks, size_t num_positions) {
        // Room for all of them, because Ctrl-C could not interrupt moving them to a larger array.
        reserve_for_long_word(nodes_, num_positions);
        if (heads_.empty()) {
            heads_.assign(num_ranks, END);
            tails_.assign(num_ranks, END);
        }
        ranks_ = {};
    }

    // Empty the lists, and free their memory if they had room for more than `most_kept` positions.
    void clear(size_t most_kept) {
        while (!ranks_.empty()) {
            heads_[ranks_.top()] = tails_[ranks_.top()] = END;
            ranks_.pop();
        }
        if (nodes_.capacity() > most_kept) nodes_ = {};
    }

    bool empty() const { return ranks_.empty(); }
    uint32_t lowest_rank() const { return ranks_.top(); }
    // The first position in the list of the lowest rank.
    uint32_t first() const { return nodes_[heads_[ranks_.top()]].position; }
    // Whether appending a position keeps the list of a rank in ascending order.
    bool is_after_last(uint32_t position, uint32_t rank) const {
        return tails_[rank] == END || nodes_[tails_[rank]].position < position;
    }

    // Append a position to the list of a rank. Throws std::length_error.
    void append(uint32_t position, uint32_t rank) {
        if (nodes_.size() >= END) throw std::length_error("a pre-token has too many pairs");
        const uint32_t added = uint32_t(nodes_.size());
        nodes_.push_back({position, END});
        if (tails_[rank] == END) {
            heads_[rank] = added;
            ranks_.push(rank);
        } else {
            nodes_[tails_[rank]].next = added;
        }
        tails_[rank] = added;
    }

    // Remove the first position from the list of the lowest rank.
    uint32_t take_first() {
        const uint32_t rank = ranks_.top();
        const Node node = nodes_[heads_[rank]];
        heads_[rank] = node.next;
        if (node.next == END) {
            tails_[rank] = END;
            ranks_.pop();
        }
        return node.position;
    }

  private:
    struct Node {
        uint32_t position, next;
    };

    std::vector<Node> nodes_;
    std::vector<uint32_t> heads_, tails_;  // rank -> the first and last nodes of its list
    // The ranks of non-empty lists, lowest on top.
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<uint32_t>> ranks_;
};

}  // namespace cs336
