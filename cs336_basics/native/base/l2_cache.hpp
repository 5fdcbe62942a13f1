// The size of the CPU's L2 cache.

#pragma once

#include <cstddef>

#if defined(__linux__)
#include <unistd.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace cs336 {

inline size_t read_l2_cache_size() {
#if defined(__linux__) && defined(_SC_LEVEL2_CACHE_SIZE)
    const long size = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return size > 0 ? size_t(size) : 0;
#elif defined(__APPLE__)
    size_t size = 0, length = sizeof(size);
    return sysctlbyname("hw.l2cachesize", &size, &length, nullptr, 0) ? 0 : size;
#else
    return 0;
#endif
}

// The size in bytes; 1 MiB if the system does not report it.
inline size_t l2_cache_size() {
    static const size_t size = read_l2_cache_size();
    return size ? size : size_t{1} << 20;
}

}  // namespace cs336
