// What can go wrong in a thread that has no Python.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cs336 {

// What went wrong, in values from which a message can be made.
struct Failure {
    enum Kind { NONE, SYSTEM, SHORTER, NOT_UTF8, MEMORY, OTHER_KIND, ABSENT_BYTE };
    Kind kind = NONE;
    size_t file = 0;
    uint64_t offset = 0;
    uint64_t expected = 0;  // SHORTER: bytes up to here were there before
    int code = 0;           // SYSTEM: errno; NOT_UTF8, ABSENT_BYTE: the byte
    std::string message;    // OTHER_KIND
};

// Thrown by a task that stops because its thread pool was cancelled.
struct Cancelled {};

}  // namespace cs336
