// BoundaryRules: where pre-tokens start, as far as the neighboring characters decide it.
//
// A split program reads one character after another, because every state depends on the one before.
// Mostly, though, two or three neighboring characters show whether a pre-token starts between them,
// whatever state the program is in. These rules are derived from the program's table, so that any
// pattern is scanned 64 bytes at a time (see simd/), and the program runs only where they are
// unclear.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace cs336 {

// Whether a pre-token starts at a character.
enum Verdict : uint8_t { INSIDE, START, UNCLEAR };

struct BoundaryRules {
    // Classes of characters that the rules do not distinguish are 0 to MAX_CLASSES - 1.
    static constexpr size_t MAX_CLASSES = 14;
    // The first byte of multi-byte characters that belong to different classes.
    static constexpr uint8_t MIXED = 14;
    // Any byte but the first of a character; as the class of the following character: unknown.
    static constexpr uint8_t CONTINUATION = 15;
    static constexpr size_t MAX_TYPES = 4;
    static constexpr size_t MAX_GROUPS = 8;

    bool useful = false;
    uint8_t class_of_byte[256];
    // Bit r of letter_leads[i] says whether all characters with the first byte 0xC0 + 16 * r + i
    // have the class of the letter x.
    uint8_t letter_leads[16];
    uint8_t class_of_column[256];
    uint8_t verdicts[16 * 16 * 16];  // of a character, by the classes before, at and after it

    // The same for vectors, which look up 16 entries at a time, by class. Characters with the same
    // verdicts for all following characters are in the same group, which is a bit in `groups`. A
    // pre-token starts at a character if the group of the character before is in `starts`. It is
    // unclear if the group is in `unclear`, or if it is in typed[t], unless the character after
    // decides: if bit t of `decided` is set, and a pre-token starts if bit t + 4 is also set.
    alignas(16) uint8_t groups[16];
    alignas(16) uint8_t starts[16];
    alignas(16) uint8_t unclear[16];
    alignas(16) uint8_t special[16];  // `unclear` and all `typed`
    alignas(16) uint8_t typed[MAX_TYPES][16];
    alignas(16) uint8_t decided[16];
    alignas(16) uint8_t skipped[16];  // bit t: this class is skipped after a pair of type t
    size_t num_types = 0;

    // Verdicts on unclear characters, if it is known whether a pre-token starts at the character
    // before: bits of Condition, by the classes before and at the character.
    // ENDS_AFTER_START: the pre-token that starts at the character before ends after this one.
    enum Condition : uint8_t {
        STARTS_AFTER_START,
        INSIDE_AFTER_START,
        STARTS_AFTER_INSIDE,
        INSIDE_AFTER_INSIDE,
        ENDS_AFTER_START,
        NUM_CONDITIONS
    };
    uint8_t conditional[16 * 16];
    // A mask of the classes that may be skipped after the character, so that the first character of
    // another class decides; by the classes before and at the character.
    uint16_t skipped_after[16 * 16];
    alignas(16) uint8_t conditions[NUM_CONDITIONS][16];  // groups, as in `starts`
    bool has_conditions = false;

    Verdict verdict(uint32_t before, uint32_t at, uint32_t after) const {
        return Verdict(verdicts[(before << 8 | at << 4 | after) & 0xFFF]);
    }
};

// The transitions of a program, as BoundaryRuleBuilder reads them.
class Transitions {
  public:
    static constexpr uint16_t MATCH = 0x8000;
    static constexpr size_t FIRST = 1;

    Transitions(const uint16_t* table, size_t num_states, size_t num_columns, size_t trouble)
        : table_(table), num_states_(num_states), num_columns_(num_columns), trouble_(trouble) {}

    size_t num_states() const { return num_states_; }
    size_t num_columns() const { return num_columns_; }
    // The next state; 0 if no match can follow.
    size_t next(size_t state, size_t column) const { return at(state, column) & ~MATCH; }
    // Whether the pattern matches the text before the character.
    bool matches(size_t state, size_t column) const { return at(state, column) & MATCH; }
    // Whether the table does not say where a pre-token ends that is in this state.
    bool is_trouble(size_t state) const { return trouble_ && state == trouble_; }

  private:
    uint16_t at(size_t state, size_t column) const { return table_[state * num_columns_ + column]; }

    const uint16_t* table_;
    size_t num_states_, num_columns_, trouble_;
};

// Derives the rules of a program that matches all text.
//
// A search is *clean* if it has read only clean characters since a pre-token started. Few patterns
// distinguish much: in English, only an apostrophe is not clean, because the s in `'s` ends a
// pre-token and any other s does not. The builder chooses the clean characters so that as few
// characters of ordinary text as possible are unclear.
class BoundaryRuleBuilder {
  public:
    // A larger program takes too long.
    static constexpr size_t MAX_WORK = 2'000'000;

    // `weights` says how frequent each column is in text. A character in a `vague` column is always
    // unclear after another such character.
    BoundaryRuleBuilder(const Transitions& transitions, std::vector<double> weights,
                        std::vector<uint8_t> vague)
        : transitions_(transitions),
          num_(transitions.num_columns() - 2),
          weights_(std::move(weights)),
          vague_(std::move(vague)) {}

    // Fill `rules`, except for class_of_byte.
    void build(BoundaryRules& rules) {
        if (num_ * num_ * num_ * transitions_.num_states() > MAX_WORK) return;
        find_sure();
        choose_clean();
        fill_verdicts();
        assign_classes(rules);
        fill_vectors(rules);
        rules.useful = unclear_weight() < MAX_UNCLEAR;
    }

  private:
    // The rules are used only if fewer characters than this part are unclear.
    static constexpr double MAX_UNCLEAR = 0.3;

    // Find the states from which every text leads to a match.
    void find_sure() {
        sure_.assign(transitions_.num_states(), 0);
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t state = 1; state < sure_.size(); ++state) {
                if (sure_[state]) continue;
                bool every = true;
                for (size_t column = 0; column < transitions_.num_columns(); ++column) {
                    every = every && (transitions_.matches(state, column) ||
                                      sure_[transitions_.next(state, column)]);
                }
                if (every) sure_[state] = changed = true;
            }
        }
    }

    // The possible states of a clean search after its first character or later.
    using States = std::vector<size_t>;

    States later_states(const std::vector<uint8_t>& clean) const {
        std::vector<uint8_t> seen(transitions_.num_states());
        States states;
        seen[0] = 1;
        const auto extend = [&](size_t state) {
            for (size_t column = 0; column < num_; ++column) {
                const size_t next = transitions_.next(state, column);
                if (clean[column] && !seen[next]) {
                    seen[next] = 1;
                    states.push_back(next);
                }
            }
        };
        extend(Transitions::FIRST);
        for (size_t i = 0; i < states.size(); ++i) extend(states[i]);
        return states;
    }

    // The states after a character of `column`.
    States after(const States& states, size_t column) const {
        std::set<size_t> found;
        for (const size_t state : states) found.insert(transitions_.next(state, column));
        found.erase(0);
        return {found.begin(), found.end()};
    }

    // For searches with these clean characters, the states after each column: of searches that
    // start there, that started before, and of both.
    struct Reached {
        std::vector<States> first, later, all;
    };

    Reached reached_states(const std::vector<uint8_t>& clean) const {
        Reached reached;
        States states = later_states(clean);
        for (size_t column = 0; column < num_; ++column) {
            reached.later.push_back(after(states, column));
            reached.first.push_back(after({Transitions::FIRST}, column));
        }
        states.push_back(Transitions::FIRST);
        for (size_t column = 0; column < num_; ++column) {
            reached.all.push_back(after(states, column));
        }
        return reached;
    }

    // Whether a pre-token starts at a character, for searches that are in `states` before it.
    // Every search ends, so if none continues, one of them has ended exactly here. If none ends
    // here, they must be in states that the next verdict allows for.
    Verdict verdict(const Reached& reached, const States& states, size_t at) const {
        bool all_end = true, none_ends = true;
        for (const size_t state : states) {
            const size_t next = transitions_.next(state, at);
            if (transitions_.is_trouble(next)) return UNCLEAR;
            all_end = all_end && next == 0;
            none_ends = none_ends && (!transitions_.matches(state, at) || sure_[next]);
        }
        if (all_end) return START;
        return none_ends && stays_clean(reached, states, at) ? INSIDE : UNCLEAR;
    }

    // The same if the character after `at` is also known.
    Verdict verdict(const Reached& reached, const States& states, size_t at,
                    size_t next_column) const {
        bool all_end = true, none_ends = true;
        for (const size_t state : states) {
            const size_t next = transitions_.next(state, at);
            const bool matches = transitions_.matches(state, at);
            if (next == 0) {
                none_ends = none_ends && !matches;
                continue;
            }
            const bool longer = transitions_.matches(next, next_column);
            const size_t last = transitions_.next(next, next_column);
            if (transitions_.is_trouble(last)) return UNCLEAR;
            all_end = all_end && !longer && last == 0;
            none_ends = none_ends && (!matches || longer || sure_[last]);
        }
        if (all_end) return START;
        return none_ends && stays_clean(reached, states, at) ? INSIDE : UNCLEAR;
    }

    // Whether the searches match the character and end directly after it.
    bool ends_after(const States& states, size_t at) const {
        for (const size_t state : states) {
            const size_t next = transitions_.next(state, at);
            for (size_t column = 0; column < num_; ++column) {
                if (!next || transitions_.next(next, column) ||
                    !transitions_.matches(next, column)) {
                    return false;
                }
            }
        }
        return true;
    }

    bool stays_clean(const Reached& reached, const States& states, size_t at) const {
        const States& allowed = reached.later[at];
        for (const size_t state : states) {
            const size_t next = transitions_.next(state, at);
            if (next && !std::binary_search(allowed.begin(), allowed.end(), next)) return false;
        }
        return true;
    }

    double cost(const std::vector<uint8_t>& clean) const {
        const Reached reached = reached_states(clean);
        double total = 0;
        for (size_t before = 0; before < num_; ++before) {
            for (size_t at = 0; at < num_; ++at) {
                if (verdict(reached, reached.all[before], at) == UNCLEAR) {
                    total += weights_[before] * weights_[at];
                }
            }
        }
        return total;
    }

    // The columns that do not change the verdict on a pair if they come before the next character.
    std::vector<uint8_t> skipped_columns(const Reached& reached, size_t before, size_t at) {
        std::vector<uint8_t> skipped(num_);
        if (verdict_at(before, at, at) != UNCLEAR) return skipped;
        skipped[at] = 1;
        if (!may_skip(reached, before, at, skipped)) return std::vector<uint8_t>(num_);
        for (size_t column = 0; column < num_; ++column) {
            if (skipped[column] || verdict_at(before, at, column) != UNCLEAR) continue;
            skipped[column] = 1;
            skipped[column] = may_skip(reached, before, at, skipped);
        }
        return skipped;
    }

    // Whether the verdicts on a pair are the same if `skipped` columns come before the character
    // that decides.
    bool may_skip(const Reached& reached, size_t before, size_t at,
                  const std::vector<uint8_t>& skipped) {
        // A search, and whether its last match so far ends before (0), at (1) or after (2) the
        // start of `at`.
        using Search = std::pair<size_t, int>;
        const auto read = [&](const Search& search, size_t column) {
            const bool matches = transitions_.matches(search.first, column);
            return Search{transitions_.next(search.first, column), matches ? 2 : search.second};
        };
        std::vector<Search> searches;
        std::set<Search> seen;
        const auto add = [&](const Search& search) {
            if (seen.insert(search).second) searches.push_back(search);
        };
        for (const size_t state : reached.all[before]) {
            add({transitions_.next(state, at), transitions_.matches(state, at) ? 1 : 0});
        }
        for (size_t i = 0; i < searches.size(); ++i) {
            for (size_t column = 0; column < num_ && searches[i].first; ++column) {
                if (skipped[column]) add(read(searches[i], column));
            }
        }
        for (size_t column = 0; column < num_; ++column) {
            const Verdict expected = Verdict(verdict_at(before, at, column));
            if (expected == UNCLEAR) continue;
            for (const Search& search : searches) {
                const Search last = search.first ? read(search, column) : search;
                if (transitions_.is_trouble(last.first)) return false;
                const bool ends = last.first == 0 && last.second != 2;
                const bool may_end_here = last.second == 1 && !sure_[last.first];
                if (expected == START ? !ends : may_end_here) return false;
            }
        }
        return true;
    }

    // Make characters clean, frequent ones first, unless this makes more text unclear.
    void choose_clean() {
        std::vector<size_t> order(num_);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](size_t a, size_t b) { return weights_[a] > weights_[b]; });
        clean_.assign(num_, 0);
        double least = cost(clean_);
        for (const size_t column : order) {
            clean_[column] = 1;
            const double now = cost(clean_);
            if (now > least) {
                clean_[column] = 0;
            } else {
                least = now;
            }
        }
    }

    uint8_t& verdict_at(size_t before, size_t at, size_t next) {
        return verdicts_[(before * num_ + at) * num_ + next];
    }

    void fill_verdicts() {
        const Reached reached = reached_states(clean_);
        verdicts_.assign(num_ * num_ * num_, UNCLEAR);
        at_end_.assign(num_ * num_, UNCLEAR);
        conditional_.assign(num_ * num_, 0);
        skipped_.assign(num_ * num_, std::vector<uint8_t>(num_));
        for (size_t before = 0; before < num_; ++before) {
            for (size_t at = 0; at < num_; ++at) {
                if (vague_[before] && vague_[at]) continue;
                const States& states = reached.all[before];
                const Verdict pair = verdict(reached, states, at);
                bool unclear = false;
                for (size_t next = 0; next < num_; ++next) {
                    const Verdict found =
                        pair == UNCLEAR ? verdict(reached, states, at, next) : pair;
                    verdict_at(before, at, next) = found;
                    unclear = unclear || found == UNCLEAR;
                }
                if (pair != UNCLEAR) {
                    at_end_[before * num_ + at] = pair;
                } else {  // after the columns of characters: the end, and a line feed before it
                    const Verdict end = verdict(reached, states, at, num_);
                    const bool same = end == verdict(reached, states, at, num_ + 1);
                    at_end_[before * num_ + at] = same ? end : UNCLEAR;
                }
                if (!unclear) continue;
                skipped_[before * num_ + at] = skipped_columns(reached, before, at);
                const Verdict first = verdict(reached, reached.first[before], at);
                const Verdict later = verdict(reached, reached.later[before], at);
                uint8_t& bits = conditional_[before * num_ + at];
                if (first != UNCLEAR) bits |= first == START ? 1 : 2;
                if (first == UNCLEAR && ends_after(reached.first[before], at)) bits |= 16;
                if (later != UNCLEAR && !reached.later[before].empty()) {
                    bits |= later == START ? 4 : 8;
                }
            }
        }
    }

    // Put columns that have the same verdicts into one class. If there are too many classes, the
    // rarest columns share one that is always unclear.
    void assign_classes(BoundaryRules& rules) {
        std::map<std::vector<uint8_t>, std::vector<size_t>> same;
        for (size_t column = 0; column < num_; ++column) {
            std::vector<uint8_t> key;
            for (size_t a = 0; a < num_; ++a) {
                key.push_back(conditional_[column * num_ + a]);
                key.push_back(conditional_[a * num_ + column]);
                key.push_back(at_end_[column * num_ + a]);
                key.push_back(at_end_[a * num_ + column]);
                for (size_t b = 0; b < num_; ++b) {
                    key.push_back(verdict_at(column, a, b));
                    key.push_back(verdict_at(a, column, b));
                    key.push_back(verdict_at(a, b, column));
                    key.push_back(skipped_[column * num_ + a][b]);
                    key.push_back(skipped_[a * num_ + column][b]);
                    key.push_back(skipped_[a * num_ + b][column]);
                }
            }
            same[key].push_back(column);
        }
        std::vector<std::pair<double, std::vector<size_t>>> classes;
        for (const auto& [key, columns] : same) {
            double weight = 0;
            for (const size_t column : columns) weight += weights_[column];
            classes.emplace_back(-weight, columns);
        }
        std::sort(classes.begin(), classes.end());
        const size_t most = BoundaryRules::MAX_CLASSES;
        const size_t kept = classes.size() > most ? most - 1 : classes.size();
        std::fill_n(rules.class_of_column, 256, uint8_t(most - 1));
        for (size_t i = 0; i < kept; ++i) {
            for (const size_t c : classes[i].second) rules.class_of_column[c] = uint8_t(i);
        }
        class_weights_.assign(16, 0);
        for (size_t i = 0; i < kept; ++i) class_weights_[i] = -classes[i].first;
        std::fill_n(rules.verdicts, sizeof(rules.verdicts), uint8_t(UNCLEAR));
        std::fill_n(rules.conditional, sizeof(rules.conditional), uint8_t(0));
        std::fill_n(rules.skipped_after, 16 * 16, uint16_t(0));
        for (size_t a = 0; a < kept; ++a) {
            for (size_t b = 0; b < kept; ++b) {
                uint8_t* const row = rules.verdicts + (a << 8 | b << 4);
                const size_t before = classes[a].second[0], at = classes[b].second[0];
                rules.conditional[a << 4 | b] = conditional_[before * num_ + at];
                uint16_t& skipped = rules.skipped_after[a << 4 | b];
                for (size_t c = 0; c < kept; ++c) {
                    skipped |= uint16_t(skipped_[before * num_ + at][classes[c].second[0]] << c);
                }
                // A character whose next one is unknown may be the last one of the text.
                const Verdict at_end = Verdict(at_end_[before * num_ + at]);
                bool same_for_all = true;
                for (size_t c = 0; c < kept; ++c) {
                    row[c] = verdict_at(before, at, classes[c].second[0]);
                    same_for_all = same_for_all && row[c] == at_end;
                }
                if (same_for_all) std::fill_n(row, 16, uint8_t(at_end));
            }
        }
    }

    // Express the verdicts as groups and types, the most frequent ones first.
    void fill_vectors(BoundaryRules& rules) {
        using Row = std::array<uint8_t, 32>;
        std::map<Row, double> types;
        for (size_t a = 0; a < 16; ++a) {
            for (size_t b = 0; b < 16; ++b) {
                const Row key = row_of(rules, a, b);
                if (key[BoundaryRules::CONTINUATION] != UNCLEAR || is_unclear(key)) continue;
                types[key] += class_weights_[a] * class_weights_[b];
            }
        }
        std::vector<Row> chosen = most_frequent(types, BoundaryRules::MAX_TYPES);
        rules.num_types = chosen.size();
        // The code of a pair: a Verdict, or 3 + its type.
        const auto code = [&](size_t a, size_t b) -> uint8_t {
            const Row key = row_of(rules, a, b);
            if (key[BoundaryRules::CONTINUATION] != UNCLEAR) return key[0];
            const auto found = std::find(chosen.begin(), chosen.end(), key);
            return found == chosen.end() ? uint8_t(UNCLEAR) : uint8_t(3 + (found - chosen.begin()));
        };
        // The codes of a class before any other, and the conditions under which they change.
        using Codes = std::array<uint8_t, 32>;
        std::vector<Codes> codes(16);
        std::map<Codes, double> groups;
        for (size_t a = 0; a < 16; ++a) {
            for (size_t b = 0; b < 16; ++b) {
                codes[a][b] = code(a, b);
                codes[a][16 + b] = rules.conditional[a << 4 | b];
            }
            groups[codes[a]] += class_weights_[a];
        }
        Codes unclear = {};
        std::fill_n(unclear.begin(), 16, uint8_t(UNCLEAR));
        groups[unclear] = 1e9;  // this group is required
        const std::vector<Codes> kept = most_frequent(groups, BoundaryRules::MAX_GROUPS);
        std::fill_n(rules.starts, 16, uint8_t(0));
        std::fill_n(rules.unclear, 16, uint8_t(0));
        std::fill_n(rules.special, 16, uint8_t(0));
        std::fill_n(rules.decided, 16, uint8_t(0));
        std::fill_n(rules.skipped, 16, uint8_t(0));
        std::fill_n(&rules.typed[0][0], sizeof(rules.typed), uint8_t(0));
        std::fill_n(&rules.conditions[0][0], sizeof(rules.conditions), uint8_t(0));
        for (size_t a = 0; a < 16; ++a) {
            auto found = std::find(kept.begin(), kept.end(), codes[a]);
            if (found == kept.end()) found = std::find(kept.begin(), kept.end(), unclear);
            rules.groups[a] = uint8_t(1 << (found - kept.begin()));
        }
        for (size_t group = 0; group < kept.size(); ++group) {
            for (size_t b = 0; b < 16; ++b) {
                const uint8_t bit = uint8_t(1 << group), found = kept[group][b];
                if (found == START) rules.starts[b] |= bit;
                if (found == UNCLEAR) rules.unclear[b] |= bit;
                if (found > UNCLEAR) rules.typed[found - 3][b] |= bit;
                if (found >= UNCLEAR) rules.special[b] |= bit;
                for (size_t i = 0; i < BoundaryRules::NUM_CONDITIONS; ++i) {
                    if (kept[group][16 + b] >> i & 1) {
                        rules.conditions[i][b] |= bit;
                        rules.has_conditions = true;
                    }
                }
            }
        }
        for (size_t type = 0; type < chosen.size(); ++type) {
            for (size_t c = 0; c < 16; ++c) {
                if (chosen[type][16 + c]) {
                    rules.skipped[c] |= uint8_t(1 << type);
                    rules.skipped[BoundaryRules::CONTINUATION] |= uint8_t(1 << type);
                }
                if (chosen[type][c] != UNCLEAR) rules.decided[c] |= uint8_t(1 << type);
                if (chosen[type][c] == START) rules.decided[c] |= uint8_t(16 << type);
            }
        }
    }

    // The verdicts on a pair for all characters after it, and whether these are skipped.
    static std::array<uint8_t, 32> row_of(const BoundaryRules& rules, size_t a, size_t b) {
        std::array<uint8_t, 32> row;
        std::copy_n(rules.verdicts + (a << 8 | b << 4), 16, row.begin());
        for (size_t c = 0; c < 16; ++c) row[16 + c] = rules.skipped_after[a << 4 | b] >> c & 1;
        return row;
    }

    static bool is_unclear(const std::array<uint8_t, 32>& row) {
        return std::all_of(row.begin(), row.begin() + 16, [](uint8_t v) { return v == UNCLEAR; });
    }

    template <class Key>
    static std::vector<Key> most_frequent(const std::map<Key, double>& weights, size_t most) {
        std::vector<std::pair<double, Key>> sorted;
        for (const auto& [key, weight] : weights) sorted.emplace_back(-weight, key);
        std::sort(sorted.begin(), sorted.end());
        std::vector<Key> keys;
        for (size_t i = 0; i < std::min(most, sorted.size()); ++i) keys.push_back(sorted[i].second);
        return keys;
    }

    // The part of the characters in text that are unclear.
    double unclear_weight() {
        const double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
        double unclear = 0;
        for (size_t a = 0; a < num_; ++a) {
            for (size_t b = 0; b < num_; ++b) {
                for (size_t c = 0; c < num_; ++c) {
                    if (verdict_at(a, b, c) != UNCLEAR || conditional_[a * num_ + b]) {
                        continue;
                    }
                    unclear += weights_[a] * weights_[b] * weights_[c];
                }
            }
        }
        return unclear / (sum * sum * sum);
    }

    const Transitions transitions_;
    const size_t num_;  // columns of characters
    const std::vector<double> weights_;
    const std::vector<uint8_t> vague_;
    std::vector<uint8_t> sure_, clean_, verdicts_, conditional_;
    std::vector<uint8_t> at_end_;  // the verdicts on pairs at the end of the text
    std::vector<std::vector<uint8_t>> skipped_;
    std::vector<double> class_weights_;
};

}  // namespace cs336
