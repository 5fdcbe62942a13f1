// A claim of a contract that is false ends the program.
#pragma once

#include <cstdio>
#include <cstdlib>

inline void check(bool holds, const char* claim) {
    if (holds) return;
    std::fprintf(stderr, "false: %s\n", claim);
    std::exit(1);
}
