// JoinedSpans: the short texts between added tokens, in a copy of the text that is scanned at once.
//
// Code has a token for a run of spaces on nearly every line. Starting the scanner for each of the
// short texts between them takes longer than encoding them. In the copy, characters with a safe cut
// on both sides replace each token, so every text is split as if it were alone.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "base/memory.hpp"
#include "encoding/word_cache.hpp"
#include "scanning/scanner.hpp"

namespace cs336 {

// The characters that can replace a token between two texts, for one split pattern: any number of
// one character and then another, which can be the same. Sets of them are bits of an integer.
class Joints {
  public:
    explicit Joints(const Scanner& scanner) {
        if (!scanner.exists() || !scanner.starts_again()) return;
        for (uint8_t left = 0; left < 128; ++left) {
            for (uint8_t right = 0; right < 128; ++right) {
                const uint8_t pair[2] = {left, right};
                is_cut_[left][right] = scanner.is_safe_cut(pair, 1);
            }
        }
        for (uint8_t character = 0; character < 128; ++character) {
            for (size_t i = 0; i < NUM_JOINTS; ++i) {
                after_[character] |= uint8_t(is_cut_[character][uint8_t(JOINTS[i])] << i);
                before_[character] |= uint8_t(is_cut_[uint8_t(JOINTS[i])][character] << i);
            }
            exist_ |= after_[character] && before_[character];
        }
        uint8_t whole[NUM_JOINTS] = {};  // by first character: with which they are one pre-token
        for (size_t i = 0; i < NUM_JOINTS; ++i) {
            for (size_t j = 0; j < NUM_JOINTS; ++j) {
                whole[i] |= uint8_t(are_whole(scanner, i, j) << j);
            }
        }
        for (size_t after = 0; after < NUM_SETS; ++after) {
            for (size_t before = 0; before < NUM_SETS; ++before) {
                for (size_t i = NUM_JOINTS; i--;) {
                    if (!(after >> i & 1)) continue;
                    Pair& pair = pairs_[after][before];
                    const bool is_whole = (before & whole[i]) != 0;
                    if (!before || (pair.is_whole && !is_whole)) continue;
                    const size_t j = size_t(lowest_bit(is_whole ? before & whole[i] : before));
                    pair = {JOINTS[i], JOINTS[j], is_whole};
                }
            }
        }
    }

    struct Pair {
        char first, last;  // 0 if there is none
        bool is_whole;
    };

    // Whether some texts can be joined.
    bool exist() const { return exist_; }
    // Whether there is a safe cut between two ASCII characters.
    bool is_cut(uint8_t left, uint8_t right) const { return is_cut_[left][right]; }
    // The characters that can follow an ASCII character.
    uint8_t after(uint8_t last) const { return after_[last]; }
    // The characters that can follow one in place of the whitespace after it; none if that can be
    // no tail.
    uint8_t after_tail(uint8_t last, uint8_t tail) const {
        return is_cut_[last][tail] && is_whitespace(tail) ? after_[last] : 0;
    }
    static bool is_whitespace(uint8_t byte) {
        return byte == ' ' || (byte >= '\t' && byte <= '\r');
    }
    // The set that contains only a space.
    static constexpr uint8_t SPACE = 1;
    // The characters that can stand between two texts: one of a set can follow the first text, and
    // the second text starts with a certain byte.
    Pair between(uint8_t after, uint8_t first) const {
        return pairs_[after][first < 0x80 ? before_[first] : 0];
    }

  private:
    static constexpr size_t NUM_JOINTS = 5, NUM_SETS = 1 << NUM_JOINTS;
    static constexpr char JOINTS[] = {' ', '\n', '1', 'a', '!'};

    // Whether any number of one character and then another are one pre-token.
    static bool are_whole(const Scanner& scanner, size_t first, size_t last) {
        uint8_t text[MAX_TRIED];
        for (size_t length = 2; length <= MAX_TRIED; ++length) {
            std::memset(text, JOINTS[first], length - 1);
            text[length - 1] = uint8_t(JOINTS[last]);
            ScanState state(scanner.num_states());
            if (scanner.next(text, length, 0, state) != length) return false;
        }
        return true;
    }
    static constexpr size_t MAX_TRIED = 8;

    bool is_cut_[128][128] = {};
    uint8_t after_[128] = {}, before_[128] = {};
    Pair pairs_[NUM_SETS][NUM_SETS] = {};
    bool exist_ = false;
};

class JoinedSpans {
  public:
    // Both must outlive this object.
    JoinedSpans(const Scanner& scanner, const Joints& joints)
        : scanner_(scanner), joints_(joints) {}

    static constexpr size_t MAX_SPAN = 1024;
    static constexpr size_t MAX_TOKEN = 1024;
    static constexpr size_t MAX_TAIL = 8;

    // What follows the body of a text: a tail of whitespace, which is not scanned if no character
    // can replace what follows it, and the added token. Both are replaced in the copy.
    struct Rest {
        // Stands for the tail and the token in the cache, and for the rests that follow this one.
        WordBytes word;
        // Where the rests that follow one another without a body between them are in the copy, and
        // how many follow this one, if it is the first of them.
        uint32_t start, end, num_chained;
        uint32_t id;  // of the added token
        uint32_t tail_length;
        const uint8_t* tail;
    };

    // Add a text of at most MAX_SPAN bytes, and the token of at most MAX_TOKEN bytes after it. It
    // must follow what was added before; `end_of_text` is the end of the text that contains all.
    // Returns false if the text cannot be joined to those before it. An empty object takes any.
    CS336_INLINE bool add(const uint8_t* text, size_t length, size_t token_length, uint32_t id,
                          const uint8_t* end_of_text) {
        if (empty()) origin_ = text;
        const uint32_t at = uint32_t(text - origin_);
        const uint32_t end = at + uint32_t(length + token_length);
        if (CS336_UNLIKELY(end > copied_)) {
            if (end > CAPACITY) return false;
            copy(end, end_of_text);
        }
        if (num_rests_ == MAX_RESTS) return false;
        const bool may_be_blank = length == 0 || Joints::is_whitespace(text[0]);
        size_t body = 0;
        if (CS336_UNLIKELY(may_be_blank) && length <= MAX_TAIL && is_blank(text, length)) {
            if (!empty()) {
                Rest& first = rests_[last_];
                add_rest(first.start, end, text, length, id);
                first.end = end;
                const WordBytes both = two_rests_word(first.word, rests_[last_ + 1].word);
                first.word = first.num_chained++ ? NEVER_STORED : both;
                return true;
            }
            after_ = Joints::SPACE;
        } else {
            if (!empty() && !replace(at)) return false;
            body = body_of(text, at, length);
        }
        size_ = at + uint32_t(body);
        last_ = num_rests_;
        add_rest(size_, end, text + body, length - body, id);
        return true;
    }

    bool empty() const { return num_rests_ == 0; }
    void clear() {
        num_rests_ = 0;
        size_ = 0;
        copied_ = 0;
    }

    // The copy up to the last body, and the end of the bytes that can be read.
    const uint8_t* text() const { return text_; }
    size_t size() const { return size_; }
    const uint8_t* readable_end() const { return text_ + sizeof text_; }

    // The rests. The one at `end` is at no place in the text.
    const Rest* begin() {
        rests_[num_rests_].start = UINT32_MAX;
        return rests_;
    }
    const Rest* end() const { return rests_ + num_rests_; }
    // The rest that starts at `start`, after a body.
    const Rest& at(uint32_t start) const {
        return *std::lower_bound(
            rests_, rests_ + num_rests_, start,
            [](const Rest& rest, uint32_t wanted) { return rest.start < wanted; });
    }

  private:
    static constexpr size_t CAPACITY = size_t{1} << 13;
    static constexpr size_t COPIED_AT_ONCE = size_t{1} << 10;
    static constexpr size_t MAX_RESTS = size_t{1} << 10;
    static constexpr size_t SHORT_REST = 32;
    static_assert(SHORT_REST >= WORD_PADDING, "a word at the end can be read");

    // Copy the text up to `end` or a little further, because few large copies are faster.
    void copy(size_t end, const uint8_t* end_of_text) {
        const size_t wanted = end - copied_ + COPIED_AT_ONCE;
        const size_t size = std::min(wanted, size_t(end_of_text - origin_) - copied_);
        std::memcpy(text_ + copied_, origin_ + copied_, size);
        copied_ += uint32_t(size);
    }

    void add_rest(uint32_t start, uint32_t end, const uint8_t* tail, size_t tail_length,
                  uint32_t id) {
        rests_[num_rests_++] = {
            rest_word(tail, tail_length, id), start, end, 0, id, uint32_t(tail_length), tail};
    }

    static bool is_blank(const uint8_t* text, size_t length) {
        while (length && Joints::is_whitespace(text[length - 1])) --length;
        return !length;
    }

    // Divide a text, which is at `at` in the copy. Returns the length of the body.
    CS336_INLINE size_t body_of(const uint8_t* text, size_t at, size_t length) {
        // Mostly, the tail is nothing or one character. Which one is hard to predict.
        const uint8_t last = text[length - 1];
        const uint8_t before_last = length > 1 ? text[length - 2] : 0xFF;
        if (CS336_UNLIKELY((last | before_last) >= 0x80)) return any_body_of(text, at, length);
        const uint8_t whole = joints_.after(last);
        const uint8_t shorter = joints_.after_tail(before_last, last);
        after_ = whole ? whole : shorter;
        if (CS336_UNLIKELY(!after_)) return any_body_of(text, at, length);
        return length - (whole == 0);
    }

    CS336_NOINLINE size_t any_body_of(const uint8_t* text, size_t at, size_t length) {
        size_t body = length;
        after_ = joints_after(at, body);
        if (after_) return body;
        while (body && length - body < MAX_TAIL && Joints::is_whitespace(text[body - 1])) --body;
        if (body && body < length && is_cut(text, body)) after_ = joints_after(at, body);
        return after_ ? body : length;
    }

    bool is_cut(const uint8_t* text, size_t offset) const {
        const uint8_t last = text[offset - 1];
        return last < 0x80 ? joints_.is_cut(last, text[offset])
                           : scanner_.is_safe_cut(text, offset);
    }

    // The characters that can follow the first `length` bytes of the text at `start`, and replace
    // what does.
    uint8_t joints_after(size_t start, size_t length) {
        uint8_t* const text = text_ + start;
        if (text[length - 1] < 0x80) return joints_.after(text[length - 1]);
        text[length] = ' ';
        return scanner_.is_safe_cut(text, length) ? Joints::SPACE : 0;
    }

    // Replace the last rests, before the text at `at`. Returns false if this is impossible.
    CS336_INLINE bool replace(size_t at) {
        const Joints::Pair pair = joints_.between(after_, text_[at]);
        if (!pair.first) return false;
        const Rest& rest = rests_[last_];
        const size_t start = rest.start, length = rest.end - start;
        if (CS336_UNLIKELY(length == 1) && start) {
            const uint8_t last = text_[start - 1];
            if (last >= 0x80 || !joints_.is_cut(last, uint8_t(pair.last))) return false;
        }
        // Most are short, and a size that varies takes longer than a few bytes that are restored.
        uint8_t after[SHORT_REST];
        std::memcpy(after, text_ + rest.end, SHORT_REST);
        std::memset(text_ + start, pair.first, SHORT_REST);
        std::memcpy(text_ + rest.end, after, SHORT_REST);
        if (CS336_UNLIKELY(length > SHORT_REST)) std::memset(text_ + start, pair.first, length);
        text_[start + length - 1] = uint8_t(pair.last);
        return true;
    }

    const Scanner& scanner_;
    const Joints& joints_;
    const uint8_t* origin_ = nullptr;  // of the copy
    uint32_t copied_ = 0;
    uint32_t size_ = 0;
    size_t num_rests_ = 0, last_ = 0;  // last_: the last rest that follows a body
    uint8_t after_ = 0;                // the joints that can follow the last body
    Rest rests_[MAX_RESTS + 1];
    uint8_t text_[CAPACITY + COPIED_AT_ONCE + SHORT_REST];
};

}  // namespace cs336
