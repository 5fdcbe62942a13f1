// Lets Ctrl-C end a long pass over memory, in code that knows no Python.

#pragma once

#include <cstddef>
#include <stdexcept>

namespace cs336 {

struct Interrupted : std::runtime_error {
    Interrupted() : std::runtime_error("interrupted") {}
};

// Calls a function every four million steps of a pass; where it returns false, throws Interrupted.
class InterruptCheck {
  public:
    using KeepGoing = bool (*)();

    // `keep_going` may be null: then nothing interrupts.
    explicit InterruptCheck(KeepGoing keep_going) : keep_going_(keep_going) {}

    void at(size_t step) {
        if (step < next_) return;
        next_ = step + INTERVAL;
        if (keep_going_ && !keep_going_()) throw Interrupted();
    }

  private:
    static constexpr size_t INTERVAL = size_t{1} << 22;

    const KeepGoing keep_going_;
    size_t next_ = INTERVAL;
};

}  // namespace cs336
