// Failures in threads, represented as values that the bindings convert to exceptions.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cs336 {

struct Failure {
    enum Kind { NONE, SYSTEM, SHORTER, NOT_UTF8, MEMORY, OTHER_KIND, LONE_SURROGATE, TOO_LONG };
    Kind kind = NONE;
    size_t file = 0;        // index of the file or text; SIZE_MAX: none
    uint64_t offset = 0;    // in the file or text
    uint64_t expected = 0;  // SHORTER: the original size of the file; TOO_LONG: the limit
    int code = 0;           // SYSTEM: errno; NOT_UTF8: the byte
    std::string message;    // OTHER_KIND
};

// Thrown to end a computation that was cancelled: a task of a thread pool, or a loop that Ctrl-C
// interrupts. If a Python exception is set, it is raised instead.
struct Cancelled {};

}  // namespace cs336
