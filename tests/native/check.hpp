// Defines `check`, which exits with an error if a claim is false.
#pragma once

#include <cstdio>
#include <cstdlib>

inline void check(bool holds, const char* claim) {
    if (holds) return;
    std::fprintf(stderr, "false: %s\n", claim);
    std::exit(1);
}
