// A compiled split pattern: a table of states, and a matcher that runs it in linear time.
//
// splitting/patterns/split_program.py builds and explains the table. The matcher takes one
// transition per character. A transition contains the next state, and whether the pattern matches
// the text before the character.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "scanning/boundary_rules.hpp"
#include "unicode/characters.hpp"
#include "unicode/utf8.hpp"

namespace cs336 {

// The arrays of Python's SplitProgram.
struct SplitTables {
    const uint16_t* transitions;  // (num_states, num_columns)
    size_t num_states, num_columns;
    const uint16_t* block_of;  // (0x110000 / 64,)
    const uint8_t* blocks;     // (num_blocks, 64)
    size_t num_blocks;
    const uint8_t* safe_cuts;  // (num_columns, num_columns), 0 or 1
    const uint8_t* threes;     // (num_columns,), 0 or 1; or nullptr
    bool matches_all_text;
    const char* name = nullptr;  // of a named pattern, a string literal
    // Of a sequence of splits that needs a reader; see splitting/patterns/composition.py.
    size_t trouble = 0;  // the state that asks for the reader
    size_t num_reader_states = 0;
    const uint32_t* move_ends = nullptr;  // (num_reader_states, num_columns - 1)
    const uint16_t* moves = nullptr;      // (number of moves,)
    const uint8_t* accepts = nullptr;     // (num_reader_states,), 0 or 1
    bool starts_again = true;
};

// The states that lead to no match, recorded every STRIDE bytes. Without this record, the matcher
// could look ahead in vain for every pre-token and take quadratic time, for example for `a*b|a` in
// a run of the letter a. With the record, the matcher searches the text at most once in each state
// (Reps 1998, "Maximal-Munch Tokenization in Linear Time").
class DeadEnds {
  public:
    static constexpr size_t STRIDE = 256;

    explicit DeadEnds(size_t num_states) : words_((num_states + 63) / 64) {}

    // Call this at the first character at or after each multiple of STRIDE. Returns false if the
    // state is known to lead to no match.
    bool visit(size_t offset, size_t state) {
        const size_t word = word_of(offset, state);
        if (word < bits_.size() && bits_[word] >> (state % 64) & 1) return false;
        visited_.emplace_back(offset, state);
        return true;
    }

    // End the search. The match ends at `end`, so states visited after `end` led to no match.
    void finish(size_t end) {
        for (const auto& [offset, state] : visited_) {
            if (offset <= end) continue;
            if (bits_.empty()) origin_ = offset / STRIDE;
            const size_t word = word_of(offset, state);
            if (word == SIZE_MAX) continue;
            if (word >= bits_.size()) bits_.resize((word / words_ + 1) * words_);
            bits_[word] |= uint64_t{1} << (state % 64);
        }
        visited_.clear();
    }

    // End the search without knowing where the match ends.
    void give_up() { visited_.clear(); }

  private:
    size_t word_of(size_t offset, size_t state) const {
        const size_t block = offset / STRIDE;
        return block < origin_ ? SIZE_MAX : (block - origin_) * words_ + state / 64;
    }

    const size_t words_;
    size_t origin_ = 0;
    std::vector<uint64_t> bits_;
    std::vector<std::pair<size_t, size_t>> visited_;  // (offset, state) in the current search
};

// The state that the matcher keeps between the pre-tokens of a text.
struct ScanState {
    explicit ScanState(size_t num_states) : dead_ends(num_states) {}

    DeadEnds dead_ends;
    size_t number_begin = 0, number_end = 0;  // a number to cut into groups of three

    // The ends that the reader of a sequence has found, and where it is.
    std::vector<size_t> ends;
    size_t next_end = 0;
    size_t reader_position = 0;
    uint16_t reader_state = 0;

    // The end of the pre-token that starts at `i`, if the reader has found it; otherwise 0.
    size_t found_end(size_t i) {
        while (next_end < ends.size() && ends[next_end] <= i) ++next_end;
        return next_end < ends.size() ? ends[next_end] : 0;
    }
};

// The reader of a sequence of splits. It finds the pre-tokens that the table of the sequence cannot
// find, because they depend on text far behind them. composition.py explains and builds it.
//
// The reader follows all guesses at once. There are only a few, because most of them soon prove
// wrong. When one is left, all ends up to there are known.
class SequenceReader {
  public:
    explicit SequenceReader(const SplitTables& tables)
        : num_columns_(tables.num_columns - 1),
          starts_again_(tables.starts_again),
          accepts_(tables.accepts, tables.accepts + tables.num_reader_states),
          move_ends_(tables.move_ends, tables.move_ends + tables.num_reader_states * num_columns_),
          moves_(tables.moves, tables.moves + (move_ends_.empty() ? 0 : move_ends_.back())) {}

    bool exists() const { return !accepts_.empty(); }
    bool starts_again() const { return starts_again_; }

    // Find the end of the pre-token that starts at `i`, and more ends. `column_at(offset, length)`
    // returns the column and the length of a character; the column of a line feed at the end of
    // the text is `last_line_feed()`.
    template <class ColumnAt>
    void find_ends(const uint8_t* text, size_t size, size_t i, ColumnAt column_at,
                   ScanState& state) const {
        size_t position = starts_again_ ? i : state.reader_position;
        std::vector<Guess> guesses{{0, starts_again_ ? uint16_t(0) : state.reader_state, 0, 0}};
        std::vector<size_t> steps{0};  // the first guess after each character
        do {
            const size_t first = steps.back(), last = guesses.size();
            size_t length;
            const size_t column = column_at(position, length);
            steps.push_back(last);
            for (size_t g = first; g < last; ++g) {
                const Guess guess = guesses[g];
                const size_t row = guess.state * num_columns_ + column;
                for (size_t m = row ? move_ends_[row - 1] : 0; m < move_ends_[row]; ++m) {
                    // At the start of a text, no pre-token ends.
                    const uint8_t ends = guess.state && moves_[m] & ENDS;
                    guesses.push_back(
                        {g, uint16_t(moves_[m] & ~ENDS), ends, uint8_t(guess.has_ends | ends)});
                }
            }
            position += length;
        } while (position < size &&
                 (guesses.size() - steps.back() > 1 || !guesses.back().has_ends));
        state.reader_position = position;
        state.ends.clear();
        state.next_end = 0;
        size_t right = guesses.size() - 1;
        if (position == size) {
            state.ends.push_back(size);
            while (!accepts_[guesses[right].state]) --right;
        }
        state.reader_state = guesses[right].state;
        for (; right; right = guesses[right].before) {
            do {
                --position;
            } while ((text[position] & 0xC0) == 0x80);
            if (guesses[right].ends) state.ends.push_back(position);
        }
        std::reverse(state.ends.begin(), state.ends.end());
    }

    size_t last_line_feed() const { return num_columns_ - 1; }

  private:
    static constexpr uint16_t ENDS = 0x8000;  // a pre-token ends before the character

    struct Guess {
        size_t before;  // index of the guess before the character
        uint16_t state;
        uint8_t ends, has_ends;  // before this character; before this or an earlier one
    };

    const size_t num_columns_;  // without the end of the text
    const bool starts_again_;
    const std::vector<uint8_t> accepts_;
    const std::vector<uint32_t> move_ends_;
    const std::vector<uint16_t> moves_;
};

class SplitProgram {
  public:
    explicit SplitProgram(const SplitTables& tables)
        : num_columns_(uint32_t(tables.num_columns)),
          num_states_(tables.num_states),
          name_(tables.name),
          block_of_(tables.block_of, tables.block_of + 0x110000 / 64),
          blocks_(tables.blocks, tables.blocks + tables.num_blocks * 64),
          safe_cuts_(tables.safe_cuts, tables.safe_cuts + tables.num_columns * tables.num_columns),
          reader_(tables) {
        for (uint32_t byte = 0; byte < 128; ++byte) ascii_[byte] = column_of(byte >> 6, byte & 63);
        // In `rows_`, a state is the offset of its row, so that a step needs no multiplication.
        for (size_t i = 0; i < tables.num_states * tables.num_columns; ++i) {
            const uint32_t transition = tables.transitions[i];
            const uint32_t state = transition & STATE;
            if (tables.trouble && state == tables.trouble) {
                rows_.push_back(TROUBLE);
                continue;
            }
            rows_.push_back(state * num_columns_ | (transition & ~STATE ? MATCH : 0) |
                            letters_kept(tables, state));
        }
        if (tables.threes) threes_.assign(tables.threes, tables.threes + tables.num_columns);
        if (tables.matches_all_text) build_rules(tables);
        // If a pre-token ends before a character, `fill` also takes, in the same step, the
        // transition on that character from the first state.
        chained_ = rows_;
        for (size_t i = num_columns_; i < chained_.size(); ++i) {
            const uint32_t first = rows_[num_columns_ + i % num_columns_];
            if (rows_[i] == MATCH) chained_[i] = ENDED | first;
        }
    }

    size_t num_states() const { return num_states_; }
    const BoundaryRules& rules() const { return rules_; }
    const char* name() const { return name_; }  // null if the pattern has no name

    // Whether the pre-tokens after the start of one depend only on the text after it.
    bool starts_again() const { return !reader_.exists() || reader_.starts_again(); }

    // The column of the multi-byte character that starts at `p`.
    CS336_INLINE uint32_t wide_column(const uint8_t* p) const {
        size_t length;
        return wide_column(p, length);
    }

    // The end of the pre-token that starts at `i` < `size`. Within a text, `i` must not decrease
    // from call to call.
    size_t next(const uint8_t* text, size_t size, size_t i, ScanState& state) const {
        if (i >= state.number_begin && i < state.number_end) return skip(text, i, 3);
        if (const size_t end = state.found_end(i)) return end;
        const size_t end = match(text, size, i, state.dead_ends);
        if (end == i) return end_without_match(text, size, i, state);
        if (threes_.empty()) return end;
        const size_t first = i + (text[i] == ' ');
        if (end <= first || !is_number(text + first)) return end;
        size_t digits = 0;
        for (size_t k = first; k < end; ++k) digits += (text[k] & 0xC0) != 0x80;
        state.number_begin = skip(text, first, digits % 3 ? digits % 3 : 3);
        state.number_end = end;
        return state.number_begin;
    }

    // Find pre-tokens from `start` on, until one starts at or after `target` <= `size`, or `ends`
    // has `capacity` elements. Append their ends, as offsets from `origin`, and move `start` past
    // the last one. Returns false if an end does not fit into 32 bits; the caller then handles this
    // pre-token alone. Repeated calls to `next` give the same result, but each call has a branch
    // that is hard to predict.
    bool find_ends(const uint8_t* text, size_t size, size_t origin, size_t& start, size_t target,
                   uint32_t* ends, size_t capacity, size_t& count, ScanState& state) const {
        while (threes_.empty() && size - origin <= UINT32_MAX && start < target &&
               !state.found_end(start)) {
            const Place at = run(chained_, text, size, start, origin, target, ends, capacity, count,
                                 state.dead_ends);
            start = at.start;
            if (start >= target || count == capacity) break;
            if (at.row) {
                // Otherwise, `at` is before the end of the text, or the end needs another search.
                if (count + 1 >= capacity || !matches_end(at, size)) break;
                state.dead_ends.finish(size);
                start = size;
                ends[count++] = uint32_t(size - origin);
                break;
            }
            start = end_without_match(text, size, start, state);
            ends[count++] = uint32_t(start - origin);
        }
        while (start < target && count < capacity) {
            const size_t end = next(text, size, start, state);
            if (end - origin > UINT32_MAX) return false;
            ends[count++] = uint32_t(end - origin);
            start = end;
        }
        return true;
    }

    // Whether 0 < `offset` < `size` is a safe cut. Only cuts before ASCII characters are safe. The
    // text may be invalid UTF-8.
    bool is_safe_cut(const uint8_t* text, size_t offset) const {
        if (text[offset] >= 0x80) return false;
        uint32_t before = ascii_[text[offset - 1] & 0x7F];
        if (text[offset - 1] >= 0x80) {
            size_t length = 2;
            while (length < 4 && length < offset && (text[offset - length] & 0xC0) == 0x80) {
                ++length;
            }
            if (length > offset) return false;
            const uint8_t* const start = text + offset - length;
            const Utf8Sequence sequence = utf8_sequence(start, text + offset);
            if (!sequence.valid || sequence.length != length) return false;
            before = wide_column(start, length);
        }
        return safe_cuts_[before * num_columns_ + ascii_[text[offset]]];
    }

  private:
    // The state bits of a transition in the tables. The remaining bit marks a match.
    static constexpr uint32_t STATE = 0x7FFF;
    // Flags of `rows_`, whose other bits are the offset of the next row. MATCH: the text before
    // this character is a match. LETTERS and LOWER: every ASCII letter (or every lower-case ASCII
    // letter) leads from the next state to itself, with a match before the letter, so that a run of
    // these letters can be skipped at once.
    static constexpr uint32_t MATCH = uint32_t{1} << 31;
    static constexpr uint32_t LETTERS = uint32_t{1} << 30;
    static constexpr uint32_t LOWER = uint32_t{1} << 29;
    // Flag of `chained_`: a pre-token ends before this character, and the next state already
    // belongs to the following pre-token.
    static constexpr uint32_t ENDED = uint32_t{1} << 28;
    // The reader must find the end of the pre-token. The next row is 0.
    static constexpr uint32_t TROUBLE = uint32_t{1} << 27;
    static constexpr uint32_t ROW = TROUBLE - 1;

    // The flag of a state: LETTERS, LOWER or 0.
    uint32_t letters_kept(const SplitTables& tables, uint32_t state) const {
        const auto keeps = [&](char first, char last) {
            for (char letter = first; letter <= last; ++letter) {
                const size_t index = state * tables.num_columns + ascii_[uint8_t(letter)];
                if (tables.transitions[index] != (state | (STATE + 1))) return false;
            }
            return true;
        };
        if (state == 0 || !keeps('a', 'z')) return 0;
        return keeps('A', 'Z') ? LETTERS : LOWER;
    }

    // The number of leading ASCII letters (of any case, or only lower case) in the next eight
    // bytes.
    CS336_INLINE static size_t letters_at(const uint8_t* p, bool any_case) {
        uint64_t word;
        std::memcpy(&word, p, 8);
        uint64_t letters = ascii_letters(word);
        if (!any_case) letters &= word << 2;  // the lower-case bit
        const uint64_t others = ~letters & 0x8080808080808080ull;
        return others ? lowest_bit(others) / 8 : 8;
    }

    // The position of the matcher: in the pre-token that starts at `start`, whose longest match so
    // far ends at `end`, before the character at `next`.
    struct Place {
        size_t start, end, next;
        uint32_t row;  // of the state
    };

    // Run a table (`rows_` or `chained_`) from the pre-token at `start` until one starts at or
    // after `target`, to the end of the text, until there are `capacity` - 1 ends, or until no
    // match starts where a pre-token ends or the reader must find its end, which sets `row` to 0.
    // The ends are offsets from `origin`. The end of the last pre-token is not in `ends`. A line
    // feed at the end of the text, which has its own column, is not read.
    CS336_INLINE Place run(const std::vector<uint32_t>& table, const uint8_t* text, size_t size,
                           size_t start, size_t origin, size_t target, uint32_t* ends,
                           size_t capacity, size_t& count, DeadEnds& dead_ends) const {
        const size_t body = size - (text[size - 1] == '\n');
        const uint32_t* const rows = table.data();
        uint32_t row = num_columns_;  // of the first state
        size_t i = start, end = start;
        const auto restart = [&] {  // the pre-token ends at `end`, before `i`
            dead_ends.finish(end);
            row = 0;
            if (end == start) return false;
            ends[count++] = uint32_t(end - origin);
            start = i = end;
            row = num_columns_;
            return true;
        };
        const auto goes_on = [&] { return start < target && count + 1 < capacity; };
        while (i < body && goes_on()) {
            const size_t stop = std::min(body, (i / DeadEnds::STRIDE + 1) * DeadEnds::STRIDE);
            while (i < stop && goes_on()) {
                const uint32_t byte = text[i];
                size_t length = 1;
                const uint32_t transition =
                    rows[row + (byte < 0x80 ? ascii_[byte] : wide_column(text + i, length))];
                ends[count] = uint32_t(i - origin);
                count += (transition & ENDED) != 0;
                start = transition & ENDED ? i : start;
                end = transition & (MATCH | ENDED) ? i : end;
                row = transition & ROW;
                if (row == 0) {
                    if (transition & TROUBLE) {
                        dead_ends.give_up();
                        return {start, start, i, row};
                    }
                    if (restart()) continue;
                    return {start, end, i, row};
                }
                i += length;
                if (transition & (LETTERS | LOWER) && size - i >= 8) {
                    const size_t letters = letters_at(text + i, transition & LETTERS);
                    if (letters) end = i + letters - 1;
                    i += letters;
                }
            }
            if (i > end + DeadEnds::STRIDE && i < body && goes_on() &&
                !dead_ends.visit(i, row / num_columns_) && !restart()) {
                break;
            }
        }
        return {start, end, i, row};
    }

    // The end of the match that starts at `i` < `size`; `i` if there is none.
    size_t match(const uint8_t* text, size_t size, size_t i, DeadEnds& dead_ends) const {
        uint32_t ends[2];
        size_t count = 0;
        Place at = run(rows_, text, size, i, i, size, ends, 2, count, dead_ends);
        if (count) return at.end;
        // A line feed at the end of the text.
        if (at.next < size && rows_[at.row + num_columns_ - 1] & MATCH) at.end = at.next;
        if (matches_end(at, size)) at.end = size;
        dead_ends.finish(at.end);
        return at.end;
    }

    // Whether the pattern matches to the end of the text, from a place at the end or before a line
    // feed that is the last character.
    bool matches_end(const Place& at, size_t size) const {
        const uint32_t row = at.next < size ? rows_[at.row + num_columns_ - 1] & ROW : at.row;
        return row && rows_[row + num_columns_ - 2] & MATCH;
    }

    // The end of the pre-token at `i`, where the table finds no match.
    CS336_NOINLINE size_t end_without_match(const uint8_t* text, size_t size, size_t i,
                                            ScanState& state) const {
        if (!reader_.exists()) return next_match(text, size, i, state.dead_ends);
        const auto column_at = [&](size_t offset, size_t& length) -> size_t {
            length = 1;
            if (text[offset] == '\n' && offset + 1 == size) return reader_.last_line_feed();
            return text[offset] < 0x80 ? ascii_[text[offset]] : wide_column(text + offset, length);
        };
        reader_.find_ends(text, size, i, column_at, state);
        return state.found_end(i);
    }

    // The start of the first match after `i`, where no match starts; `size` if there is none.
    size_t next_match(const uint8_t* text, size_t size, size_t i, DeadEnds& dead_ends) const {
        do {
            i += character_length(text[i]);
        } while (i < size && match(text, size, i, dead_ends) == i);
        return i;
    }

    bool is_number(const uint8_t* p) const {
        size_t length;
        return threes_[*p < 0x80 ? ascii_[*p] : wide_column(p, length)];
    }

    // The offset `count` characters after `i`.
    static size_t skip(const uint8_t* text, size_t i, size_t count) {
        for (; count; --count) i += character_length(text[i]);
        return i;
    }

    // The column of a code point: `index` is its lowest six bits, and `block` is all higher bits.
    uint8_t column_of(uint32_t block, uint32_t index) const {
        return blocks_[size_t(block_of_[block]) * 64 + index];
    }

    // Derive the rules, and classify the bytes.
    void build_rules(const SplitTables& tables) {
        // How often a character occurs in ordinary text, roughly.
        std::vector<double> weights(num_columns_ - 2, 1);
        for (int byte = 0; byte < 128; ++byte) {
            const bool lower = byte >= 'a' && byte <= 'z';
            weights[ascii_[byte]] += byte == ' '    ? 170
                                     : lower        ? 30
                                     : byte == '\n' ? 20
                                     : byte > ' '   ? 2
                                                    : 0;
        }
        for (uint32_t code = 128; code < 0x10000; ++code) {
            weights[column_of(code >> 6, code & 63)] += 0.001;
        }
        std::vector<uint8_t> vague(num_columns_);
        if (!threes_.empty()) vague = threes_;
        BoundaryRuleBuilder(
            Transitions(tables.transitions, num_states_, num_columns_, tables.trouble), weights,
            vague)
            .build(rules_);
        if (!rules_.useful) return;
        for (int byte = 0; byte < 128; ++byte) {
            rules_.class_of_byte[byte] = rules_.class_of_column[ascii_[byte]];
        }
        std::fill_n(rules_.class_of_byte + 128, 128, BoundaryRules::CONTINUATION);
        std::vector<uint8_t> class_of_block(blocks_.size() / 64);
        for (size_t block = 0; block < class_of_block.size(); ++block) {
            class_of_block[block] = rules_.class_of_column[blocks_[64 * block]];
            for (size_t i = 1; i < 64; ++i) {
                if (rules_.class_of_column[blocks_[64 * block + i]] != class_of_block[block]) {
                    class_of_block[block] = BoundaryRules::MIXED;
                }
            }
        }
        for (size_t block = 2; block < 0x110000 / 64; ++block) {
            if (block >= 0xD800 / 64 && block < 0xE000 / 64) continue;  // surrogates
            const size_t lead = block < 0x800 / 64     ? 0xC0 | block
                                : block < 0x10000 / 64 ? 0xE0 | block >> 6
                                                       : 0xF0 | block >> 12;
            uint8_t& found = rules_.class_of_byte[lead];
            const uint8_t here = class_of_block[block_of_[block]];
            found =
                found == BoundaryRules::CONTINUATION || found == here ? here : BoundaryRules::MIXED;
        }
        std::fill_n(rules_.letter_leads, 16, uint8_t{0});
        for (int lead = 0xC0; lead < 0x100; ++lead) {
            const bool letters = rules_.class_of_byte[lead] == rules_.class_of_byte['x'];
            rules_.letter_leads[lead & 15] |= uint8_t(letters << ((lead - 0xC0) >> 4));
        }
    }

    // The column and the length of the multi-byte character that starts at `p`.
    CS336_INLINE uint32_t wide_column(const uint8_t* p, size_t& length) const {
        const WideCode code = wide_code(p);
        length = code.length;
        return column_of(code.block, code.index);
    }

    const uint32_t num_columns_;
    const size_t num_states_;
    const char* const name_;
    std::vector<uint32_t> rows_;     // the offset of the next row, plus flags
    std::vector<uint32_t> chained_;  // the same for `fill`
    const std::vector<uint16_t> block_of_;
    const std::vector<uint8_t> blocks_;
    const std::vector<uint8_t> safe_cuts_;
    std::vector<uint8_t> threes_;  // empty: every match is a pre-token
    const SequenceReader reader_;
    uint8_t ascii_[128];
    BoundaryRules rules_;
};

}  // namespace cs336
