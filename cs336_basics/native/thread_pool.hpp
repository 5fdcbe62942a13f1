// A thread pool that runs numbered tasks in order.

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

#include "failure.hpp"

namespace cs336 {

// A crew of threads that work off items 0, 1, 2, ... in order.
class ThreadPool {
  public:
    ~ThreadPool() {
        cancelled = true;
        join();
    }

    // Start threads that call `work(thread, item)` for every item; it returns a Failure. Returns
    // whether there is any thread.
    bool start(int num_threads, size_t num_items,
               std::function<Failure(int, size_t)> work) {
        work_ = std::move(work);
        num_items_ = num_items;
        next_ = 0;
        const size_t wanted = std::min(size_t(std::max(num_threads, 1)), std::max<size_t>(num_items, 1));
        running_ = int(wanted);
        for (size_t i = 0; i < wanted; ++i) {
            try {
                threads_.emplace_back([this, i] { run(int(i)); });
            } catch (const std::system_error& error) {
                // Fewer threads than wanted do the same work.
                std::lock_guard<std::mutex> lock(mutex_);
                running_ -= int(wanted - i);
                if (i == 0) failure_ = {Failure::SYSTEM, SIZE_MAX, 0, 0, error.code().value(), ""};
                break;
            }
        }
        return !threads_.empty();
    }

    // Wait for the end, but not longer than that; returns whether all is done.
    bool wait(int milliseconds) {
        std::unique_lock<std::mutex> lock(mutex_);
        return done_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                              [this] { return running_ == 0; });
    }

    void join() {
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

    // Of several failures that of the first item: the same for every number of threads.
    const Failure& failure() const { return failure_; }

    std::atomic<bool> cancelled{false};

  private:
    void run(int thread) {
        for (;;) {
            const size_t item = next_.fetch_add(1);
            if (item >= num_items_ || cancelled) break;
            Failure failure;
            try {
                failure = work_(thread, item);
            } catch (const Cancelled&) {
                break;
            } catch (const std::bad_alloc&) {
                failure.kind = Failure::MEMORY;
            } catch (const std::exception& error) {
                failure.kind = Failure::OTHER_KIND;
                failure.message = error.what();
            }
            if (failure.kind != Failure::NONE) {
                // Items before this one are still finished: one of them may fail, too.
                next_ = num_items_;
                std::lock_guard<std::mutex> lock(mutex_);
                if (failure_.kind == Failure::NONE || item < failed_item_) {
                    failure_ = failure;
                    failed_item_ = item;
                }
            }
        }
        std::lock_guard<std::mutex> lock(mutex_);
        if (--running_ == 0) done_.notify_all();
    }

    std::vector<std::thread> threads_;
    std::function<Failure(int, size_t)> work_;
    size_t num_items_ = 0;
    std::atomic<size_t> next_{0};
    std::mutex mutex_;
    std::condition_variable done_;
    int running_ = 0;
    Failure failure_;
    size_t failed_item_ = 0;
};

}  // namespace cs336
