// ThreadPool: threads that run the tasks 0, 1, 2, ... and start them in order.

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/failure.hpp"

namespace cs336 {

class ThreadPool {
  public:
    ~ThreadPool() {
        cancelled = true;
        join();
    }

    // Start threads that call `run_task(thread, task)`, which returns a Failure, for every task.
    // Returns false if no thread can be started; `failure` then contains the reason.
    bool start(int num_threads, size_t num_tasks, std::function<Failure(int, size_t)> run_task) {
        run_task_ = std::move(run_task);
        num_tasks_ = num_tasks;
        next_ = 0;
        const size_t wanted =
            std::min(size_t(std::max(num_threads, 1)), std::max<size_t>(num_tasks, 1));
        running_ = int(wanted);
        for (size_t i = 0; i < wanted; ++i) {
            try {
                threads_.emplace_back([this, i] { run(int(i)); });
            } catch (const std::system_error& error) {
                // A single thread is enough to run all tasks.
                std::lock_guard<std::mutex> lock(mutex_);
                running_ -= int(wanted - i);
                if (i == 0) failure_ = {Failure::SYSTEM, SIZE_MAX, 0, 0, error.code().value(), ""};
                break;
            }
        }
        return !threads_.empty();
    }

    // Run all tasks in the calling thread. Otherwise like `start`.
    void run_here(size_t num_tasks, std::function<Failure(int, size_t)> run_task) {
        run_task_ = std::move(run_task);
        num_tasks_ = num_tasks;
        next_ = 0;
        running_ = 1;
        run(0);
    }

    // Wait at most `milliseconds` for the threads. Returns true if all threads are done.
    bool wait(int milliseconds) {
        std::unique_lock<std::mutex> lock(mutex_);
        return done_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                              [this] { return running_ == 0; });
    }

    // Wait for the threads. Call `keep_going()` every 50 milliseconds and at the end; if it returns
    // false, cancel the threads. Returns false in this case.
    template <class KeepGoing>
    bool finish(const KeepGoing& keep_going) {
        bool done = false;
        while (!done && !cancelled) {
            done = wait(50);
            if (!keep_going()) cancelled = true;
        }
        join();
        return !cancelled;
    }

    void join() {
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

    // The failure of the lowest-numbered task that failed, regardless of the number of threads.
    const Failure& failure() const { return failure_; }

    // Set to true to stop: no more tasks start, and a long task throws Cancelled.
    std::atomic<bool> cancelled{false};

  private:
    void run(int thread) {
        for (;;) {
            const size_t task = next_.fetch_add(1);
            if (task >= num_tasks_ || cancelled) break;
            Failure failure;
            try {
                failure = run_task_(thread, task);
            } catch (const Cancelled&) {
                break;
            } catch (const std::bad_alloc&) {
                failure.kind = Failure::MEMORY;
            } catch (const std::exception& error) {
                failure.kind = Failure::OTHER_KIND;
                failure.message = error.what();
            }
            if (failure.kind != Failure::NONE) {
                // Start no more tasks. Earlier tasks that are still running may also fail.
                next_ = num_tasks_;
                std::lock_guard<std::mutex> lock(mutex_);
                if (failure_.kind == Failure::NONE || task < failed_task_) {
                    failure_ = failure;
                    failed_task_ = task;
                }
            }
        }
        std::lock_guard<std::mutex> lock(mutex_);
        if (--running_ == 0) done_.notify_all();
    }

    std::vector<std::thread> threads_;
    std::function<Failure(int, size_t)> run_task_;
    size_t num_tasks_ = 0;
    std::atomic<size_t> next_{0};
    std::mutex mutex_;
    std::condition_variable done_;
    int running_ = 0;
    Failure failure_;
    size_t failed_task_ = 0;
};

}  // namespace cs336
