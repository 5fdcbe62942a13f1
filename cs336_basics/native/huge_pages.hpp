// Huge pages for large arrays, where the system has them. No Python in here.

#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace cs336 {

// Ask for huge pages for memory that is not touched yet: small ones cost a fault for every 4 KiB.
inline void ask_for_huge_pages(void* memory, size_t num_bytes) {
#if defined(__linux__)
    constexpr uintptr_t HUGE_PAGE = uintptr_t{2} << 20;
    const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t first = (start + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    const uintptr_t last = (start + num_bytes) / HUGE_PAGE * HUGE_PAGE;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)memory, (void)num_bytes;
#endif
}

}  // namespace cs336
