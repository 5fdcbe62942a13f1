// Reads bytes that libFuzzer changes so that they reach new code, and compares the results with
// those of the simplest code. The first byte of the input chooses what reads the rest. The row
// `guided-native` of tests/campaign builds this program with the sanitizers.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "base/simd_level.hpp"
#include "byte_of_code.hpp"
#include "check.hpp"
#include "scanning/scanner.hpp"
#include "scanning/split_patterns.hpp"
#include "unicode/normal_characters.hpp"
#include "unicode/text_view.hpp"
#include "unicode/utf8.hpp"
#include "word_merging/json_vocabulary.hpp"
#include "word_merging/kept_merges.hpp"
#include "word_merging/rank_file.hpp"

using namespace cs336;

namespace {

void read_json(const uint8_t* text, size_t size) {
    static const std::vector<uint16_t> codes = byte_of_code();
    if (first_invalid_utf8(text, size) != size) return;
    Words words(size, size / 12);
    JsonVocabulary reader(text, size, codes.data(), codes.size());
    std::vector<TextSpan> pairs;
    if (!reader.read(words, pairs)) return;
    for (const JsonVocabulary::Range range : {reader.vocab, reader.merges}) {
        check(range.start < range.end && range.end <= size, "a range is inside the file");
    }
    if (words.index() && words.index_ids()) words.set_merges(pairs);
}

void read_rank_file(const uint8_t* text, size_t size) {
    Words words(size, size / 12);
    if (read_ranks(text, size, words) && words.index() && words.index_ids()) {
        words.set_merges_of_ranks();
    }
}

// Repair a text. Returns the valid text.
std::vector<uint8_t> repair(const uint8_t* text, size_t size) {
    check(first_invalid_utf8(text, size) == first_invalid_utf8_scalar(text, size),
          "the first invalid byte is found at every SIMD level");
    std::vector<uint8_t> valid;
    const Replaced replaced = replace_invalid_utf8(text, size, valid);
    check(first_invalid_utf8_scalar(valid.data(), valid.size()) == valid.size(),
          "the repaired text is valid");
    const bool was_valid = first_invalid_utf8_scalar(text, size) == size;
    check(was_valid == (replaced.sequences == 0), "invalid sequences are counted");
    if (was_valid) {
        check(valid.size() == size && std::equal(valid.begin(), valid.end(), text),
              "a valid text does not change");
    }
    return valid;
}

void split(const uint8_t* text, size_t size) {
    if (!size) return;
    const NamedProgram& named = NAMED_PROGRAMS[text[0] % std::size(NAMED_PROGRAMS)];
    const auto program = named_program(named.name);
    const std::vector<uint8_t> valid = repair(text + 1, size - 1);
    std::vector<size_t> expected;
    const Scanner simple(program, SimdLevel::SCALAR);
    ScanState state(simple.num_states());
    for (size_t i = 0; i < valid.size();) {
        const size_t end = simple.next(valid.data(), valid.size(), i, state);
        check(end > i && end <= valid.size(), "a pre-token has a character");
        expected.push_back(i = end);
    }
    for (int level = 0; level < NUM_SIMD_LEVELS; ++level) {
        if (!has_simd_level(SimdLevel(level))) continue;
        const Scanner scanner(program, SimdLevel(level));
        std::vector<size_t> found;
        scanner.scan(
            valid.data(), valid.size(),
            [&](const uint8_t* first, const uint32_t* ends, size_t count) {
                for (size_t i = 0; i < count; ++i) {
                    found.push_back(size_t(first - valid.data()) + ends[i]);
                }
            },
            [&](const uint8_t*, size_t) { check(false, "no pre-token has 4 GiB"); });
        check(found == expected, "windows end where the program ends");
        if (valid.size() > MAX_SHORT_TEXT) continue;
        std::vector<uint8_t> padded(valid);
        padded.insert(padded.end(), SPACES_AFTER, ' ');
        uint32_t ends[BATCH_CAPACITY];
        const size_t count = scanner.fill_short(padded.data(), valid.size(), ends);
        check(std::equal(ends, ends + count, expected.begin(), expected.end()),
              "short texts end where the program ends");
    }
    for (size_t i = 1; i < valid.size(); ++i) {
        if (valid[i] < 0x80 && simple.is_safe_cut(valid.data(), i)) {
            check(std::binary_search(expected.begin(), expected.end(), i),
                  "a pre-token ends at a safe cut");
        }
    }
}

// A small imitation of NFC for `NormalCharacters`: the classes of characters are random, those of
// most blocks equal.
const std::vector<uint8_t>& classes() {
    static const std::vector<uint8_t> found = [] {
        std::vector<uint8_t> classes(NormalCharacters::NUM_CODES, 0);
        constexpr uint8_t KINDS[] = {
            0, 0, 1, 7, 220, 230, 240, NormalCharacters::JOINING, NormalCharacters::OTHER};
        for (size_t code = 0xC0; code < classes.size(); ++code) {
            const uint64_t block = split_mix(code / 64);
            if (code < 0x400 || block % 5 == 0) classes[code] = KINDS[split_mix(code) % 9];
            if (block % 5 == 1) classes[code] = KINDS[block / 5 % 9];
        }
        return classes;
    }();
    return found;
}

NormalCharacters normal_characters(SimdLevel simd_level) {
    std::vector<uint64_t> pairs;
    for (uint64_t code = 'A'; code < 0x2000; code += 3) {
        const uint64_t mark = 0x300 + split_mix(code) % 0x70;
        pairs.push_back(code << 32 | (split_mix(code) % 4 ? mark : 0));
    }
    return NormalCharacters(classes().data(), pairs, simd_level);
}

// Find the runs to normalize at every SIMD level, in UTF-8 and in code points.
void find_runs(const uint8_t* text, size_t size) {
    static const std::vector<NormalCharacters> levels = [] {
        std::vector<NormalCharacters> made;
        for (int level = 0; level < NUM_SIMD_LEVELS; ++level) {
            if (has_simd_level(SimdLevel(level))) {
                made.push_back(normal_characters(SimdLevel(level)));
            }
        }
        return made;
    }();
    const std::vector<uint8_t> valid = repair(text, size);
    std::vector<uint16_t> narrow;
    std::vector<uint32_t> codes;
    for (size_t i = 0; i < valid.size(); ++i) {
        const uint8_t byte = valid[i];
        if (byte < 0x80 || byte >= 0xC0) {
            const uint8_t mask = byte < 0x80 ? 0x7F : byte < 0xE0 ? 0x1F : byte < 0xF0 ? 15 : 7;
            codes.push_back(byte & mask);
        } else {
            codes.back() = codes.back() << 6 | (byte & 0x3F);
        }
    }
    for (const uint32_t code : codes) narrow.push_back(uint16_t(code));
    const TextView views[] = {{valid.data(), valid.size(), TextView::UTF8},
                              {narrow.data(), narrow.size(), TextView::UCS2},
                              {codes.data(), codes.size(), TextView::UCS4}};
    for (const TextView& view : views) {
        const auto expected = levels[0].runs(view);
        size_t end = 0;
        for (const NormalCharacters::Run run : expected) {
            check(end <= run.start && run.start < run.end && run.end <= view.length,
                  "runs do not overlap");
            end = run.end;
        }
        for (const NormalCharacters& level : levels) {
            const auto found = level.runs(view);
            check(std::equal(found.begin(), found.end(), expected.begin(), expected.end(),
                             [](const auto& one, const auto& other) {
                                 return one.start == other.start && one.end == other.end;
                             }),
                  "the runs are those of the simplest code");
        }
    }
    const auto runs = levels[0].runs(views[2]);
    size_t number = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
        while (number < runs.size() && runs[number].end <= i) ++number;
        const bool is_inside = number < runs.size() && runs[number].start <= i;
        check(is_inside || classes()[codes[i]] != NormalCharacters::OTHER,
              "characters that normalization may replace are in a run");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (!size) return 0;
    // A copy of exactly this size, followed by a zero as in a bytes object of Python.
    std::vector<uint8_t> text(data + 1, data + size);
    text.push_back(0);
    switch (data[0] % 5) {
        case 0: read_json(text.data(), size - 1); break;
        case 1: read_rank_file(text.data(), size - 1); break;
        case 2: repair(text.data(), size - 1); break;
        case 3: split(text.data(), size - 1); break;
        case 4: find_runs(text.data(), size - 1); break;
    }
    return 0;
}
