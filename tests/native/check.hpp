// Exits with an error if the claim of a contract does not hold.
#pragma once

#include <cstdio>
#include <cstdlib>

inline void check(bool holds, const char* claim) {
    if (holds) return;
    std::fprintf(stderr, "false: %s\n", claim);
    std::exit(1);
}
