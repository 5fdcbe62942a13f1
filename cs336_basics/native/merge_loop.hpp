// The merge loop of the native trainer: counted words in, merges out. No Python in here.
//
// Three ideas carry it; each replaces waiting for memory by work on few, near bytes.
//
// 1. Cells with two tags. All words lie in one array, one cell for each byte, a NO_TOKEN cell
//    between words. A token is written into its first and into its last cell, so that both
//    neighbours of any token are found without links, however long the word is:
//
//        position   0   1   2   3   4   5   6        (the word "lower" after the merges
//        cell       -   l   ow  ow  er  er  -         o+w and e+r; l is a token of one byte)
//
//    The token that begins at p ends before p + length; the one before p ends in cell p - 1.
//
// 2. Postings that may be stale. A pair knows the positions where it began when it was counted,
//    in ascending order, so that runs such as "aaaa" merge from the left. Whether a posting still
//    holds is seen in the cells themselves: a token that was swallowed leaves NO_TOKEN in its
//    first cell (or, if it was one byte long, perhaps the id of a longer token). Words are sorted
//    by count, so that the count of a position is found by walking along with the postings.
//
// 3. A threshold. On real text almost all pairs are so rare that no merge will ever choose them.
//    Only pairs of at least `threshold_` occurrences are kept: the others cost no table entry, no
//    postings, no place in the heap. That is exact: the count of a pair can only fall once the
//    merge that made it is complete, so as long as a kept pair reaches the threshold, the best
//    pair is a kept one. When none does, the threshold is lowered and the pairs are counted anew.
//
// During a merge nothing is hashed: with the pair (a, b) given, the pairs that change are told by
// the neighbour alone, so their changes are summed in two arrays indexed by token id, and each
// changed pair is looked up once at the end.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "memory.hpp"


#if defined(__GNUC__) || defined(__clang__)
#define CS336_PREFETCH_FOR_WRITE(address) __builtin_prefetch((address), 1)
#else
#define CS336_PREFETCH_FOR_WRITE(address) ((void)0)
#endif

namespace cs336 {

inline double seconds_now() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

struct MergeOptions {
    int64_t num_merges = 0;
    int64_t min_frequency = 1;  // a pair with a smaller count is not merged
    int64_t max_token_length = std::numeric_limits<int64_t>::max();  // bytes
    // Of equal counts the greatest bytes win; or, with `byte_ranks`, the smallest ranks: of a byte
    // the one given here (256 of them), of a merged token its id.
    const uint8_t* byte_ranks = nullptr;
    // Asked now and then in the middle of long steps; `false` ends them with Interrupted.
    bool (*keep_going)() = nullptr;
};

struct Interrupted : std::runtime_error {
    Interrupted() : std::runtime_error("interrupted") {}
};

// What the caller sees; the two widths of token ids are behind it.
class MergeLoop {
public:
    virtual ~MergeLoop() = default;

    // Learn merges for about `seconds`; return whether there is more to learn. After an exception
    // nothing more can be learned.
    virtual bool run(double seconds) = 0;

    std::vector<std::pair<uint32_t, uint32_t>> merges;  // token ids: bytes, then merges in order
    double seconds_counting = 0, seconds_finding = 0, seconds_updating = 0;
    int64_t num_rebuilds = 0;  // how often pairs were counted anew
};

template <class Token>
class FlatMergeLoop final : public MergeLoop {
public:
    static constexpr Token NO_TOKEN = static_cast<Token>(-1);

    // data: the words one after the other; word i is data[offsets[i]:offsets[i + 1]]. Σ count·length
    // must fit int64. The arrays are not needed after construction.
    FlatMergeLoop(const uint8_t* data, const int64_t* offsets, const int64_t* counts,
                  int64_t num_words, const MergeOptions& options)
        : options_(options),
          floor_(std::max<int64_t>(1, options.min_frequency)),
          by_rank_(options.byte_ranks != nullptr) {
        double start = seconds_now();
        for (int byte = 0; byte < 256; byte++) {
            bytes_.push_back(static_cast<uint8_t>(byte));
            first_byte_.push_back(byte);
            length_.push_back(1);
            tie_.push_back(by_rank_ ? ~uint64_t{options.byte_ranks[byte]} : uint64_t(byte) << 56);
        }
        before_.resize(256);
        after_.resize(256);
        lay_out_words(data, offsets, counts, num_words);
        seconds_counting += seconds_now() - start;
    }

    bool run(double seconds) override {
        double start = seconds_now();
        const double deadline = start + seconds;
        while (static_cast<int64_t>(merges.size()) < options_.num_merges) {
            PairId best = pop_best();
            double found = seconds_now();
            seconds_finding += found - start;
            if (best == NO_PAIR) {
                if (threshold_ <= floor_) return false;
                if (byte_pairs_.empty()) count_pairs();
                else count_byte_pairs();
                start = seconds_now();
                seconds_counting += start - found;
            } else {
                merge(best);
                start = seconds_now();
                seconds_updating += start - found;
            }
            if (start >= deadline) return true;
        }
        return false;
    }

private:
    using Position = uint32_t;  // of a cell
    using PairId = uint32_t;
    static constexpr PairId NO_PAIR = static_cast<PairId>(-1);
    static constexpr uint32_t NO_CURSOR = static_cast<uint32_t>(-1);

    struct Pair {
        int64_t count;
        uint32_t left, right;
        Position* postings;  // ascending
        uint32_t num_postings;
    };
    struct Slot {  // of the hash table; empty if pair is NO_PAIR
        uint64_t key;
        PairId pair;
    };
    struct HeapEntry {
        int64_t count;  // when it was pushed
        uint64_t tie;   // tie_ of the left token
        PairId pair;
    };
    struct Neighbour {  // what a merge changes for one token id beside it
        int64_t count;
        uint32_t places;
        uint32_t cursor;
    };
    struct Place {  // of one merged occurrence
        Position position;
        Token before, after;
    };
    struct BytePair {
        int64_t count = 0;
        uint32_t places = 0;
    };

    // Asks `keep_going` every few million steps of a long pass.
    class Watch {
    public:
        explicit Watch(const MergeOptions& options) : keep_going_(options.keep_going) {}
        void at(size_t step) {
            if (step < next_) return;
            next_ = step + (size_t{1} << 22);
            if (keep_going_ && !keep_going_()) throw Interrupted();
        }

    private:
        bool (*keep_going_)();
        size_t next_ = size_t{1} << 22;
    };

    const MergeOptions options_;
    const int64_t floor_;
    const bool by_rank_;
    int64_t threshold_ = std::numeric_limits<int64_t>::max();

    std::vector<Token> cells_;
    size_t num_left_ = 0;  // tokens in the cells, ends of words included
    std::vector<Position> run_start_;  // words of equal count lie together: where such a run begins
    std::vector<int64_t> run_count_;

    // by token id
    std::vector<uint32_t> length_;      // bytes
    std::vector<uint64_t> tie_;         // of equal counts the greater one wins; if equal, the bytes decide
    std::vector<int64_t> first_byte_;   // token bytes are bytes_[first_byte_:first_byte_ + length_]
    std::vector<uint8_t> bytes_;

    std::vector<BytePair> byte_pairs_;  // 256 x 256; empty once they are in pairs_
    std::vector<Pair> pairs_;
    std::vector<Slot> slots_;
    int slot_shift_ = 0;
    std::vector<HeapEntry> heap_;

    std::vector<std::unique_ptr<Position[]>> blocks_;  // hold all postings
    std::vector<std::pair<size_t, Position*>> free_;   // room in them; a heap, the largest on top

    // scratch of merge, by token id: what changes for the tokens before and after the merged pair
    std::vector<Neighbour> before_, after_;
    std::vector<Token> touched_before_, touched_after_;
    std::vector<Place> places_;

    // --- words ----------------------------------------------------------------------------------

    void lay_out_words(const uint8_t* data, const int64_t* offsets, const int64_t* counts,
                       int64_t num_words) {
        uint64_t num_cells = 1;
        for (int64_t i = 0; i < num_words; i++)
            if (is_useful(offsets, counts, i)) num_cells += offsets[i + 1] - offsets[i] + 1;
        if (num_cells >= std::numeric_limits<Position>::max())
            throw std::overflow_error(
                "the distinct words have 4 GiB or more together, more than the native trainer can "
                "address; drop the rarest words, or count with a pattern that splits more");
        cells_.reserve(num_cells);
        ask_for_huge_pages(cells_.data(), num_cells * sizeof(Token));
        cells_.resize(num_cells);
        num_left_ = num_cells;
        byte_pairs_.resize(256 * 256);
        Watch watch(options_);
        Position position = 0;
        cells_[position++] = NO_TOKEN;
        for (int64_t word : words_by_count(offsets, counts, num_words)) {
            if (run_count_.empty() || run_count_.back() != counts[word]) {
                run_start_.push_back(position);
                run_count_.push_back(counts[word]);
            }
            for (int64_t i = offsets[word]; i < offsets[word + 1]; i++) {
                watch.at(position);
                cells_[position++] = data[i];
                if (i + 1 < offsets[word + 1]) {
                    BytePair& pair = byte_pairs_[data[i] << 8 | data[i + 1]];
                    pair.count += counts[word];
                    pair.places++;
                }
            }
            cells_[position++] = NO_TOKEN;
        }
        run_start_.push_back(std::numeric_limits<Position>::max());
    }

    static bool is_useful(const int64_t* offsets, const int64_t* counts, int64_t word) {
        return counts[word] > 0 && offsets[word + 1] - offsets[word] >= 2;
    }

    // The words that can hold a pair, the most frequent first. Most counts are small: those are
    // sorted by counting, which is several times faster than comparing.
    static std::vector<uint32_t> words_by_count(const int64_t* offsets, const int64_t* counts,
                                                int64_t num_words) {
        constexpr int64_t LARGE = 4096;
        std::vector<uint32_t> start(LARGE + 2, 0);  // by LARGE - count, so that large ones come first
        auto bucket = [&](int64_t word) { return LARGE - std::min(LARGE, counts[word]); };
        for (int64_t i = 0; i < num_words; i++)
            if (is_useful(offsets, counts, i)) start[bucket(i) + 1]++;
        for (int64_t i = 0; i <= LARGE; i++) start[i + 1] += start[i];
        const uint32_t num_large = start[1];
        std::vector<uint32_t> words(start[LARGE + 1]);
        for (int64_t i = 0; i < num_words; i++)
            if (is_useful(offsets, counts, i)) words[start[bucket(i)]++] = static_cast<uint32_t>(i);
        std::sort(words.begin(), words.begin() + num_large, [&](uint32_t a, uint32_t b) {
            return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
        });
        return words;
    }

    // The run of equal counts that holds a position, looked for from `first` on.
    size_t run_of(Position position, size_t first = 0) const {
        return std::upper_bound(run_start_.begin() + first, run_start_.end(), position) -
               run_start_.begin() - 1;
    }

    // --- counting pairs, all at once --------------------------------------------------------------

    void count_byte_pairs() {
        // A guess from a dozen corpora of how frequent the last merged pair will be, on the low
        // side: too low costs a few more pairs, too high costs counting again.
        int64_t occurrences = 0, most = 0;
        for (const BytePair& pair : byte_pairs_) {
            occurrences += pair.count;
            most = std::max(most, pair.count);
        }
        const int64_t guess = occurrences / 64 / options_.num_merges;
        threshold_ = std::max(floor_, std::min(guess, most / 4));

        std::vector<Position*> next(256 * 256, nullptr);
        if (options_.max_token_length >= 2) {
            for (uint32_t i = 0; i < 256 * 256; i++)
                if (byte_pairs_[i].count >= threshold_)
                    pairs_[add_pair(i >> 8, i & 255, byte_pairs_[i].count)].num_postings =
                        byte_pairs_[i].places;
        }
        for (Pair& pair : pairs_)
            next[pair.left << 8 | pair.right] = pair.postings = allocate(pair.num_postings);
        Watch watch(options_);
        for (Position p = 1; p + 1 < cells_.size(); p++) {
            watch.at(p);
            if (cells_[p] == NO_TOKEN || cells_[p + 1] == NO_TOKEN) continue;
            Position*& place = next[cells_[p] << 8 | cells_[p + 1]];
            if (place) *place++ = p;
        }
        byte_pairs_ = std::vector<BytePair>();
        build_heap();
    }

    // Count the pairs anew with a lower threshold, when no kept pair reaches the old one.
    void count_pairs() {
        num_rebuilds++;
        pairs_.clear();
        heap_.clear();
        blocks_.clear();
        free_.clear();

        // First in a table without keys, where several pairs may share an entry: its sums are
        // never too low, so pairs below the threshold are ruled out without a table of them all.
        int bits = 16;
        while (bits < 24 && (size_t{1} << bits) < num_left_ / 2) bits++;
        std::vector<int64_t> sums(size_t{1} << bits);
        auto sum = [&](uint64_t key) -> int64_t& { return sums[hash(key) >> (64 - bits)]; };
        for_each_pair([&](Position, uint64_t key, int64_t count) { sum(key) += count; });
        threshold_ = lower_threshold(*std::max_element(sums.begin(), sums.end()));

        resize_slots(1 << 12);
        for_each_pair([&](Position, uint64_t key, int64_t count) {
            if (sum(key) < threshold_) return;
            PairId id = find(key);
            if (id == NO_PAIR) id = add_pair(static_cast<uint32_t>(key >> 32), static_cast<uint32_t>(key), 0);
            pairs_[id].count += count;
            pairs_[id].num_postings++;
        });
        pairs_.erase(std::remove_if(pairs_.begin(), pairs_.end(),
                                    [&](const Pair& pair) { return pair.count < threshold_; }),
                     pairs_.end());
        size_t num_slots = 1 << 12;
        while (num_slots < 4 * pairs_.size()) num_slots *= 2;
        resize_slots(num_slots);

        for (Pair& pair : pairs_) {
            pair.postings = allocate(pair.num_postings);
            pair.num_postings = 0;
        }
        for_each_pair([&](Position p, uint64_t key, int64_t) {
            if (sum(key) < threshold_) return;
            PairId id = find(key);
            if (id != NO_PAIR) pairs_[id].postings[pairs_[id].num_postings++] = p;
        });
        build_heap();
    }

    // `most`: no pair is more frequent. Counts of merged pairs fall about as rank^-1.5.
    int64_t lower_threshold(int64_t most) const {
        const double progress = static_cast<double>(merges.size()) / static_cast<double>(options_.num_merges);
        const auto guess = static_cast<int64_t>(static_cast<double>(threshold_) * std::pow(progress, 1.5));
        return std::max(floor_, std::min({guess, threshold_ / 4, most / 4}));
    }

    // Call function(position, key, count of the word) for all neighbouring tokens, except where
    // they are too long to be merged.
    template <class Function>
    void for_each_pair(Function function) {
        Watch watch(options_);
        size_t run = 0;
        Position p = 1;
        while (p < cells_.size()) {
            while (p >= run_start_[run + 1]) run++;
            Token left = cells_[p], right;
            Position q = p + length_[left];
            while ((right = cells_[q]) != NO_TOKEN) {
                watch.at(p);
                if (fits(left, right)) function(p, key_of(left, right), run_count_[run]);
                p = q;
                left = right;
                q += length_[right];
            }
            p = q + 1;
        }
    }

    bool fits(uint32_t left, uint32_t right) const {
        return static_cast<int64_t>(length_[left]) + length_[right] <= options_.max_token_length;
    }

    // --- merging ----------------------------------------------------------------------------------

    void merge(PairId id) {
        const Pair pair = pairs_[id];
        const uint32_t a = pair.left, b = pair.right, ab = add_token(a, b);
        merges.emplace_back(a, b);
        pairs_[id].count = 0;
        replace_in_cells(pair, ab);
        num_left_ -= places_.size();
        release(pair.postings, pair.num_postings);

        // (x, a) became (x, ab), and (b, y) became (ab, y), everywhere at once. Of "abab" the first
        // merge makes (ab, a), which the second takes away again to make (ab, ab): its x is ab.
        const size_t first_new = pairs_.size();
        const int64_t taken_away = before_[ab].count;
        size_t num_postings = 0;
        auto keep = [&](uint32_t left, uint32_t right, int64_t count, Neighbour& neighbour) {
            neighbour.cursor = NO_CURSOR;
            if (count < threshold_ || !fits(left, right)) return;
            pairs_[add_pair(left, right, count)].num_postings = neighbour.places;
            neighbour.cursor = static_cast<uint32_t>(num_postings);
            num_postings += neighbour.places;
        };
        for (Token x : touched_before_) {
            if (x != ab) decrease(x, a, before_[x].count);
            keep(x, ab, before_[x].count, before_[x]);
        }
        for (Token y : touched_after_) {
            if (a != b || y != a) decrease(b, y, after_[y].count);
            keep(ab, y, after_[y].count - (y == a ? taken_away : 0), after_[y]);
        }
        if (num_postings) write_postings(first_new, num_postings);
        for (Token x : touched_before_) before_[x] = Neighbour{};
        for (Token y : touched_after_) after_[y] = Neighbour{};
    }

    // Write token `ab` wherever the pair stands; note the places and sum up by neighbour.
    void replace_in_cells(const Pair& pair, uint32_t ab) {
        constexpr uint32_t AHEAD = 24;  // postings; hides the latency of memory
        const uint32_t a = pair.left, b = pair.right;
        const Position length_a = length_[a], length_b = length_[b];
        const Position* postings = pair.postings;
        Token* cells = cells_.data();
        Neighbour* before = before_.data();
        Neighbour* after = after_.data();
        Watch watch(options_);
        places_.clear();
        if (pair.num_postings > places_.capacity()) {
            places_.reserve(pair.num_postings);
            ask_for_huge_pages(places_.data(), places_.capacity() * sizeof(Place));
        }
        touched_before_.clear();
        touched_after_.clear();
        size_t run = run_of(postings[0]);
        for (uint32_t i = 0; i < pair.num_postings; i++) {
            watch.at(i);
            if (i + AHEAD < pair.num_postings) CS336_PREFETCH_FOR_WRITE(cells + postings[i + AHEAD]);
            const Position p = postings[i], q = p + length_a, end = q + length_b;
            if (cells[p] != a || cells[q] != b) continue;  // stale
            if (p >= run_start_[run + 1]) run = run_of(p, run + 1);
            const int64_t count = run_count_[run];
            const Token x = cells[p - 1], y = cells[end];
            cells[q] = NO_TOKEN;
            cells[p] = cells[end - 1] = static_cast<Token>(ab);
            if (x != NO_TOKEN) {
                if (!before[x].places++) touched_before_.push_back(x);
                before[x].count += count;
            }
            if (y != NO_TOKEN) {
                if (!after[y].places++) touched_after_.push_back(y);
                after[y].count += count;
            }
            places_.push_back(Place{p, x, y});
        }
    }

    // Give the pairs from `first_new` on their postings, and push them.
    void write_postings(size_t first_new, size_t num_postings) {
        Position* const postings = allocate(num_postings);
        Position* next = postings;
        for (size_t id = first_new; id < pairs_.size(); id++) {
            pairs_[id].postings = next;
            next += pairs_[id].num_postings;
            push(static_cast<PairId>(id));
        }
        for (const Place& place : places_) {
            if (place.before != NO_TOKEN && before_[place.before].cursor != NO_CURSOR)
                postings[before_[place.before].cursor++] = place.position - length_[place.before];
            if (place.after != NO_TOKEN && after_[place.after].cursor != NO_CURSOR)
                postings[after_[place.after].cursor++] = place.position;
        }
    }

    void decrease(uint32_t left, uint32_t right, int64_t count) {
        const PairId id = find(key_of(left, right));
        if (id != NO_PAIR) pairs_[id].count -= count;
    }

    uint32_t add_token(uint32_t left, uint32_t right) {
        const auto token = static_cast<uint32_t>(length_.size());
        const size_t first = bytes_.size(), length = size_t{length_[left]} + length_[right];
        bytes_.resize(first + length);
        std::memcpy(&bytes_[first], &bytes_[first_byte_[left]], length_[left]);
        std::memcpy(&bytes_[first + length_[left]], &bytes_[first_byte_[right]], length_[right]);
        first_byte_.push_back(static_cast<int64_t>(first));
        length_.push_back(static_cast<uint32_t>(length));
        uint64_t prefix = 0;  // the first eight bytes, so that integers compare as the bytes do
        for (size_t i = 0; i < 8; i++) prefix = prefix << 8 | (i < length ? bytes_[first + i] : 0);
        tie_.push_back(by_rank_ ? ~uint64_t{token} : prefix);
        before_.push_back(Neighbour{});
        after_.push_back(Neighbour{});
        return token;
    }

    // --- pairs and their hash table ---------------------------------------------------------------

    static uint64_t key_of(uint32_t left, uint32_t right) {
        return static_cast<uint64_t>(left) << 32 | right;
    }

    // Fibonacci hashing (Knuth, TAOCP 6.4): the high bits of the product are the well-mixed ones.
    static uint64_t hash(uint64_t key) { return (key ^ key >> 29) * 0x9E3779B97F4A7C15u; }

    PairId find(uint64_t key) const {
        const size_t mask = slots_.size() - 1;
        for (size_t i = hash(key) >> slot_shift_;; i = (i + 1) & mask)
            if (slots_[i].pair == NO_PAIR || slots_[i].key == key) return slots_[i].pair;
    }

    PairId add_pair(uint32_t left, uint32_t right, int64_t count) {
        if (2 * pairs_.size() >= slots_.size()) resize_slots(std::max<size_t>(1 << 12, 2 * slots_.size()));
        const auto id = static_cast<PairId>(pairs_.size());
        pairs_.push_back(Pair{count, left, right, nullptr, 0});
        insert_slot(id);
        return id;
    }

    void resize_slots(size_t size) {  // a power of two
        slots_.assign(size, Slot{0, NO_PAIR});
        slot_shift_ = 64;
        while (size >>= 1) slot_shift_--;
        for (size_t id = 0; id < pairs_.size(); id++) insert_slot(static_cast<PairId>(id));
    }

    void insert_slot(PairId id) {
        const uint64_t key = key_of(pairs_[id].left, pairs_[id].right);
        const size_t mask = slots_.size() - 1;
        size_t i = hash(key) >> slot_shift_;
        while (slots_[i].pair != NO_PAIR) i = (i + 1) & mask;
        slots_[i] = Slot{key, id};
    }

    // Room for postings, cut from the largest room there is.
    Position* allocate(size_t size) {
        if (free_.empty() || free_.front().first < size) {
            const size_t block_size = std::max<size_t>(size, 1 << 16);
            blocks_.emplace_back(new Position[block_size]);
            ask_for_huge_pages(blocks_.back().get(), block_size * sizeof(Position));
            release(blocks_.back().get(), block_size);
        }
        std::pop_heap(free_.begin(), free_.end());
        const auto [free_size, room] = free_.back();
        free_.pop_back();
        release(room + size, free_size - size);
        return room;
    }

    void release(Position* room, size_t size) {
        if (size < 256) return;  // not worth keeping
        free_.emplace_back(size, room);
        std::push_heap(free_.begin(), free_.end());
    }

    // --- the lazy heap: greatest (count, tie) on top ----------------------------------------------

    // The best pair, taken from the heap; NO_PAIR if no kept pair reaches the threshold.
    PairId pop_best() {
        while (!heap_.empty()) {
            HeapEntry top = heap_[0];
            const int64_t count = pairs_[top.pair].count;
            if (count == top.count || count < threshold_) {
                const HeapEntry last = heap_.back();
                heap_.pop_back();
                if (!heap_.empty()) sift_down(0, last);
                if (count == top.count) return top.pair;
            } else {  // the count fell since the push: back with the count of today
                top.count = count;
                sift_down(0, top);
            }
        }
        return NO_PAIR;
    }

    void build_heap() {
        for (size_t id = 0; id < pairs_.size(); id++) heap_.push_back(entry(static_cast<PairId>(id)));
        for (size_t i = heap_.size() / 2; i-- > 0;) sift_down(i, heap_[i]);
    }

    void push(PairId id) {
        const HeapEntry pushed = entry(id);
        size_t i = heap_.size();
        heap_.push_back(pushed);
        for (; i > 0 && is_above(pushed, heap_[(i - 1) / 2]); i = (i - 1) / 2)
            heap_[i] = heap_[(i - 1) / 2];
        heap_[i] = pushed;
    }

    void sift_down(size_t i, const HeapEntry moved) {
        for (;;) {
            size_t child = 2 * i + 1;
            if (child >= heap_.size()) break;
            if (child + 1 < heap_.size() && is_above(heap_[child + 1], heap_[child])) child++;
            if (!is_above(heap_[child], moved)) break;
            heap_[i] = heap_[child];
            i = child;
        }
        heap_[i] = moved;
    }

    HeapEntry entry(PairId id) const { return {pairs_[id].count, tie_[pairs_[id].left], id}; }

    bool is_above(const HeapEntry& one, const HeapEntry& other) const {
        if (one.count != other.count) return one.count > other.count;
        if (one.tie != other.tie) return one.tie > other.tie;
        const Pair &p = pairs_[one.pair], &q = pairs_[other.pair];
        if (p.left != q.left) return compare_tokens(p.left, q.left) > 0;
        return compare_tokens(p.right, q.right) > 0;
    }

    // <0, 0 or >0, as `bytes` objects compare, or by rank.
    int compare_tokens(uint32_t one, uint32_t other) const {
        if (tie_[one] != tie_[other]) return tie_[one] < tie_[other] ? -1 : 1;
        const int order = std::memcmp(&bytes_[first_byte_[one]], &bytes_[first_byte_[other]],
                                      std::min(length_[one], length_[other]));
        if (order != 0) return order;
        return (length_[one] > length_[other]) - (length_[one] < length_[other]);
    }
};

// A merge loop with the narrowest token ids that hold all merges. Throws std::overflow_error.
inline std::unique_ptr<MergeLoop> make_merge_loop(const uint8_t* data, const int64_t* offsets,
                                                  const int64_t* counts, int64_t num_words,
                                                  const MergeOptions& options) {
    if (options.num_merges < 65535 - 256)
        return std::make_unique<FlatMergeLoop<uint16_t>>(data, offsets, counts, num_words, options);
    return std::make_unique<FlatMergeLoop<uint32_t>>(data, offsets, counts, num_words, options);
}

}  // namespace cs336
