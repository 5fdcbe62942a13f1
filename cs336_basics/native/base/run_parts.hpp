// Runs the parts of a computation, each in its own thread, and waits for them.

#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>

#include "base/failure.hpp"
#include "base/interrupt.hpp"
#include "base/thread_pool.hpp"

namespace cs336 {

// Call run_part(part, interrupt) for the parts 0 .. num_parts - 1. Long loops in run_part must call
// interrupt.at(step). A single part runs in the calling thread, and so do all parts if no thread
// can be started. Only the calling thread calls keep_going. Throws Cancelled if keep_going
// returns false, or std::bad_alloc if memory runs out. Any other std::exception from a thread
// becomes a std::runtime_error with the same message.
template <class RunPart>
void run_parts(size_t num_parts, InterruptCheck::KeepGoing keep_going, const RunPart& run_part) {
    ThreadPool pool;
    const auto run = [&](int, size_t part) {
        run_part(part, InterruptCheck(pool.cancelled));
        return Failure();
    };
    if (num_parts <= 1 || !pool.start(int(num_parts), num_parts, run)) {
        for (size_t part = 0; part < num_parts; ++part) run_part(part, InterruptCheck(keep_going));
        return;
    }
    if (!pool.finish([&] { return !keep_going || keep_going(); })) throw Cancelled();
    if (pool.failure().kind == Failure::MEMORY) throw std::bad_alloc();
    if (pool.failure().kind != Failure::NONE) throw std::runtime_error(pool.failure().message);
}

}  // namespace cs336
