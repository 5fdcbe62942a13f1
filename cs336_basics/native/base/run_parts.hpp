// Runs the parts of a computation, each in its own thread, and waits for them.

#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <stdexcept>

#include "base/failure.hpp"
#include "base/interrupt.hpp"
#include "base/thread_pool.hpp"

namespace cs336 {

// Call run_task(thread, task, interrupt) for the tasks 0 .. num_tasks - 1, in up to `num_threads`
// threads, which start them in order. Long loops in run_task must call interrupt.at(step). A single
// thread is the calling thread, which also runs all tasks if no thread can be started. Only the
// calling thread calls keep_going. Throws Cancelled if keep_going returns false, or std::bad_alloc
// if memory runs out. Any other std::exception from a thread becomes a std::runtime_error with the
// same message.
template <class RunTask>
void run_tasks(size_t num_threads, size_t num_tasks, InterruptCheck::KeepGoing keep_going,
               const RunTask& run_task) {
    ThreadPool pool;
    const auto run = [&](int thread, size_t task) {
        run_task(size_t(thread), task, InterruptCheck(pool.cancelled));
        return Failure();
    };
    if (std::min(num_threads, num_tasks) <= 1 || !pool.start(int(num_threads), num_tasks, run)) {
        for (size_t task = 0; task < num_tasks; ++task) {
            if (keep_going && !keep_going()) throw Cancelled();
            run_task(0, task, InterruptCheck(keep_going));
        }
        return;
    }
    if (!pool.finish([&] { return !keep_going || keep_going(); })) throw Cancelled();
    if (pool.failure().kind == Failure::MEMORY) throw std::bad_alloc();
    if (pool.failure().kind != Failure::NONE) throw std::runtime_error(pool.failure().message);
}

// Call run_part(part, interrupt) for the parts 0 .. num_parts - 1, each in its own thread.
template <class RunPart>
void run_parts(size_t num_parts, InterruptCheck::KeepGoing keep_going, const RunPart& run_part) {
    run_tasks(num_parts, num_parts, keep_going,
              [&](size_t, size_t part, InterruptCheck interrupt) { run_part(part, interrupt); });
}

}  // namespace cs336
