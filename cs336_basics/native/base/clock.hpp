// The clock that times the phases of training.

#pragma once

#include <chrono>

namespace cs336 {

// Seconds on a monotonic clock.
inline double seconds_now() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace cs336
