// Threads that wait for short pieces of work, such as a product of 20 microseconds.

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include "base/simd_target.hpp"

namespace cs336 {

// Threads that run tasks 0, 1, 2, ... together with the thread that calls `run`. A task must not
// throw. Between two calls, a worker looks for new tasks for about 20 microseconds and then sleeps.
// The caller takes tasks as well, so a worker that the system does not run delays only the task
// that it has already taken.
class Crew {
  public:
    Crew() = default;
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;

    ~Crew() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            stopping_ = true;
        }
        work_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    // Start threads. If the system allows no more, there are fewer.
    void start(int num_threads) {
        try {
            for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { work(); });
        } catch (const std::system_error&) {
        }
    }

    // Call task(i) for every i < num_tasks. There are at most MOST_TASKS tasks.
    template <class Task>
    void run(size_t num_tasks, const Task& task) {
        call_.store([](const void* context, size_t i) { (*static_cast<const Task*>(context))(i); },
                    std::memory_order_relaxed);
        context_.store(&task, std::memory_order_relaxed);
        done_.store(0, std::memory_order_relaxed);
        const uint64_t job = (state_.load(std::memory_order_relaxed) >> JOB_SHIFT) + 1;
        state_.store(job << JOB_SHIFT | uint64_t(num_tasks) << COUNT_SHIFT);
        if (sleeping_.load() > 0) {
            std::lock_guard<std::mutex> lock(mutex_);
            work_.notify_all();
        }
        run_tasks(state_.load() >> JOB_SHIFT);
        wait_for_workers(num_tasks);
    }

    static constexpr size_t MOST_TASKS = (size_t{1} << 20) - 1;

  private:
    using Call = void (*)(const void*, size_t);

    // The state contains the number of the job, its number of tasks and the next task, 24, 20 and
    // 20 bits. A worker takes a task by a compare-and-swap of the whole state, so a worker that is
    // late can never take a task of another job than the one it has read.
    static constexpr int COUNT_SHIFT = 20, JOB_SHIFT = 40;

    static void pause() {
#if defined(CS336_X86)
        __builtin_ia32_pause();
#elif defined(CS336_NEON)
        asm volatile("yield");
#endif
    }

    // Call `ready` until it returns true, but for no more than about 20 microseconds.
    template <class Ready>
    static bool look(const Ready& ready) {
        using Clock = std::chrono::steady_clock;
        const Clock::time_point start = Clock::now();
        do {
            for (int i = 0; i < 32; ++i) {
                if (ready()) return true;
                pause();
            }
        } while (Clock::now() - start < std::chrono::microseconds(20));
        return ready();
    }

    void run_tasks(uint64_t job) {
        const Call call = call_.load(std::memory_order_relaxed);
        const void* context = context_.load(std::memory_order_relaxed);
        uint64_t state = state_.load();
        for (;;) {
            const size_t next = state & MOST_TASKS, count = state >> COUNT_SHIFT & MOST_TASKS;
            if (state >> JOB_SHIFT != job || next >= count) return;
            if (!state_.compare_exchange_weak(state, state + 1)) continue;
            call(context, next);
            if (done_.fetch_add(1) + 1 == count && caller_sleeps_.load()) {
                std::lock_guard<std::mutex> lock(mutex_);
                finished_.notify_one();
            }
            state = state_.load();
        }
    }

    void wait_for_workers(size_t num_tasks) {
        const auto finished = [&] { return done_.load() == num_tasks; };
        if (look(finished)) return;
        std::unique_lock<std::mutex> lock(mutex_);
        caller_sleeps_ = true;
        finished_.wait(lock, finished);
        caller_sleeps_ = false;
    }

    void work() {
        uint64_t job = 0;
        for (;;) {
            const auto is_new = [&] {
                return state_.load() >> JOB_SHIFT != job || stopping_.load();
            };
            if (!look(is_new)) {
                std::unique_lock<std::mutex> lock(mutex_);
                sleeping_.fetch_add(1);
                work_.wait(lock, is_new);
                sleeping_.fetch_sub(1);
            }
            if (stopping_.load()) return;
            job = state_.load() >> JOB_SHIFT;
            run_tasks(job);
        }
    }

    std::vector<std::thread> threads_;
    std::atomic<uint64_t> state_{0};
    std::atomic<Call> call_{nullptr};
    std::atomic<const void*> context_{nullptr};
    std::atomic<size_t> done_{0};
    std::atomic<int> sleeping_{0};
    std::atomic<bool> caller_sleeps_{false}, stopping_{false};
    std::mutex mutex_;
    std::condition_variable work_, finished_;
};

// A crew that starts when it is first needed, and is not used in a copy of the process that fork()
// makes, because fork() copies only one thread.
class Workers {
  public:
    explicit Workers(int num_threads) : num_threads_(std::max(num_threads, 1)) {}
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    ~Workers() {
        // Destroying a crew of another process would wait for threads that do not exist here.
        if (process_ != this_process()) crew_.release();
    }

    // Number of threads, including the caller's.
    int num_threads() const { return num_threads_; }

    // Call task(i) for every i < num_tasks, in this thread and, unless `alone`, in the crew.
    template <class Task>
    void run(size_t num_tasks, bool alone, const Task& task) {
        if (num_tasks > 1 && !alone && num_threads_ > 1) {
            if (!crew_) {
                crew_.reset(new Crew());
                crew_->start(num_threads_ - 1);
            }
            if (process_ == this_process()) return crew_->run(num_tasks, task);
        }
        for (size_t i = 0; i < num_tasks; ++i) task(i);
    }

  private:
    static long this_process() {
#if defined(_WIN32)
        return 0;
#else
        return getpid();
#endif
    }

    int num_threads_;
    long process_ = this_process();
    std::unique_ptr<Crew> crew_;
};

// Chooses between one thread and all threads, by the time that recent tokens took. All threads are
// faster on a machine that is idle, but one is faster if the model is small or other programs use
// the cores. The choice is tried again after 32 tokens, and then after up to 512 if it stays.
class ThreadChoice {
  public:
    // Whether the next token is computed by one thread.
    bool alone() const { return step_ < PROBES ? step_ % 2 == 0 : alone_; }

    void record(double seconds) {
        if (step_ < PROBES) {
            sum_[step_ % 2] += seconds;
            if (++step_ < PROBES) return;
            const bool alone = sum_[0] <= sum_[1];
            interval_ = alone == alone_ ? std::min(2 * interval_, 512) : 32;
            alone_ = alone;
        } else if (++step_ >= PROBES + interval_) {
            step_ = 0;
            sum_[0] = sum_[1] = 0;
        }
    }

  private:
    static constexpr int PROBES = 6;
    int step_ = 0, interval_ = 16;
    bool alone_ = true;
    double sum_[2] = {0, 0};
};

}  // namespace cs336
