// Lets Ctrl-C stop a long loop that runs outside Python.

#pragma once

#include <atomic>
#include <cstddef>

#include "base/failure.hpp"

namespace cs336 {

// Every four million steps, either calls a function or checks a flag. Throws Cancelled if the
// function returns false or the flag is set.
class InterruptCheck {
  public:
    using KeepGoing = bool (*)();

    // If `keep_going` is null, nothing interrupts the loop.
    explicit InterruptCheck(KeepGoing keep_going) : keep_going_(keep_going) {}
    explicit InterruptCheck(const std::atomic<bool>& cancelled) : cancelled_(&cancelled) {}

    void at(size_t step) {
        if (step < next_) return;
        next_ = step + INTERVAL;
        if ((keep_going_ && !keep_going_()) || (cancelled_ && *cancelled_)) throw Cancelled();
    }

  private:
    static constexpr size_t INTERVAL = size_t{1} << 22;

    const KeepGoing keep_going_ = nullptr;
    const std::atomic<bool>* const cancelled_ = nullptr;
    size_t next_ = INTERVAL;
};

}  // namespace cs336
