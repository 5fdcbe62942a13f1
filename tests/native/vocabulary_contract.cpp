// Damages files of vocabularies and reads them. The sanitizers detect what reads or writes outside.

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "byte_of_code.hpp"
#include "check.hpp"
#include "unicode/utf8.hpp"
#include "word_merging/json_vocabulary.hpp"
#include "word_merging/rank_file.hpp"

using namespace cs336;

namespace {

const std::string JSON =
    "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 7, \"content\": \"<|end|>\"}],\n "
    "\"model\": "
    "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"\\u0120\": 3, \"ab\": 4, "
    "\"abc\": 5, \"Ġ\\\"\": 6, \"<|end|>\": 7, \"<a b>\": 8, \"猫\": 9}, \"merges\": [\"a b\", "
    "[\"ab\", \"c\"]]}, \"x\": [[{\"y\\\\\": null}], -1.5e3]}";

std::string ranks() {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string lines;
    for (int byte = 0; byte < 256; ++byte) {
        lines += DIGITS[byte >> 2];
        lines += DIGITS[(byte & 3) << 4];
        lines += "== " + std::to_string(byte) + "\n";
    }
    return lines + "YWI= 256\nYWJj 257\neHg= 258\neHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4 300";
}

// A copy in memory of exactly this size, followed by a zero as in a bytes object of Python.
std::vector<uint8_t> copied(const std::string& text) {
    std::vector<uint8_t> copy(text.size() + 1);
    std::copy(text.begin(), text.end(), copy.begin());
    return copy;
}

bool read_json(const std::string& text, const std::vector<uint16_t>& codes) {
    const std::vector<uint8_t> file = copied(text);
    if (first_invalid_utf8(file.data(), text.size()) != text.size()) return false;
    Words words(text.size(), text.size() / 12);
    JsonVocabulary reader(file.data(), text.size(), codes.data(), codes.size());
    std::vector<TextSpan> pairs;
    if (!reader.read(words, pairs)) return false;
    for (const JsonVocabulary::Range range : {reader.vocab, reader.merges}) {
        check(range.start < range.end && range.end <= text.size(), "a range is outside the file");
    }
    return words.index() && words.add_more({{"more", 99}}) && words.index_ids() &&
           words.set_merges(pairs);
}

bool read_rank_file(const std::string& text) {
    const std::vector<uint8_t> file = copied(text);
    Words words(text.size(), text.size() / 12);
    return read_ranks(file.data(), text.size(), words) && words.index() && words.index_ids() &&
           words.set_merges_of_ranks();
}

void damage(std::string& text, std::mt19937& random) {
    static const std::array<const char*, 24> PARTS = {
        "\"",         "\\",       "{",        "}",          "[",         "]",
        ",",          ": ",       " ",        "0",          "-1",        "\n",
        "\xc3",       "\xff",     "\\u0120",  "\\ud800",    "\"vocab\"", "\"model\"",
        "\"merges\"", "\"a\": 1", "\xc4\xa0", "4294967295", "=",         "99999999999"};
    const size_t at = random() % (text.size() + 1);
    switch (random() % 4) {
        case 0: text.erase(at, 1 + random() % 5); break;
        case 1: text.insert(at, PARTS[random() % PARTS.size()]); break;
        case 2:
            if (at < text.size()) text[at] = char(random());
            break;
        default: text.insert(at, text.substr(random() % (text.size() + 1), random() % 40));
    }
}

}  // namespace

int main() {
    const std::vector<uint16_t> codes = byte_of_code();
    check(read_json(JSON, codes), "the usual JSON was not read");
    check(read_rank_file(ranks()), "the usual ranks were not read");
    const size_t end_of_merges = JSON.find("]]") + 2;
    for (size_t size = 0; size < JSON.size(); ++size) {
        check(read_json(JSON.substr(0, size), codes) == (size >= end_of_merges), "a part was read");
    }
    std::mt19937 random(5);
    for (int round = 0; round < 20'000; ++round) {
        std::string json = JSON, lines = ranks();
        for (unsigned i = 1 + random() % 3; i > 0; --i) damage(json, random), damage(lines, random);
        read_json(json, codes);
        if (round % 10 == 0) read_rank_file(lines);
    }
    return 0;
}
