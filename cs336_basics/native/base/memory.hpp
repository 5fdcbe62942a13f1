// Memory for large data: buffers, arrays of table entries, arenas and huge pages.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace cs336 {

// This many bytes after a word must be readable, because a short word is loaded as 16 bytes.
constexpr size_t WORD_PADDING = 16;

constexpr size_t HUGE_PAGE = size_t{2} << 20;

// Request huge pages for memory before its first use. Small pages cost a page fault every 4 KiB.
inline void ask_for_huge_pages(void* memory, size_t num_bytes) {
#if defined(__linux__)
    const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t first = (start + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    const uintptr_t last = (start + num_bytes) / HUGE_PAGE * HUGE_PAGE;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)memory, (void)num_bytes;
#endif
}

// A growing array of uninitialized bytes. A std::vector would initialize bytes that are overwritten
// anyway.
class Buffer {
  public:
    uint8_t* data() { return data_.get(); }
    // Free the memory if it is larger than `max_capacity`.
    void trim(size_t max_capacity) {
        if (capacity_ <= max_capacity) return;
        data_.reset();
        capacity_ = 0;
    }
    // Make room for `size` bytes and WORD_PADDING; keep the first `keep` bytes.
    void reserve(size_t size, size_t keep) {
        if (size + WORD_PADDING <= capacity_) return;
        const size_t capacity = std::max(size + WORD_PADDING, capacity_ + capacity_ / 2);
        std::unique_ptr<uint8_t[]> larger(new uint8_t[capacity]);
        if (keep) std::memcpy(larger.get(), data_.get(), keep);
        data_ = std::move(larger);
        capacity_ = capacity;
    }

  private:
    std::unique_ptr<uint8_t[]> data_;
    size_t capacity_ = 0;
};

// A zero-initialized array of 32-byte table entries, on huge pages if the system has them. With
// small pages, most lookups in a large table would also miss the TLB.
template <class Entry>
class EntryArray {
    static_assert(sizeof(Entry) == 32, "entries are aligned to their size");

  public:
    EntryArray() = default;
    explicit EntryArray(size_t size) : size_(size) {
        const size_t num_bytes = size * sizeof(Entry);
        const size_t alignment = num_bytes < HUGE_PAGE ? sizeof(Entry) : HUGE_PAGE;
        memory_ = allocate(num_bytes + alignment);
        const uintptr_t start = reinterpret_cast<uintptr_t>(memory_.get());
        entries_ = reinterpret_cast<Entry*>((start + alignment - 1) / alignment * alignment);
        ask_for_huge_pages(entries_, num_bytes);
    }

    size_t size() const { return size_; }
    Entry& operator[](size_t i) { return entries_[i]; }
    const Entry& operator[](size_t i) const { return entries_[i]; }

  private:
    struct Free {
        size_t mapped = 0;  // bytes; 0: memory from malloc
        void operator()(void* memory) const {
#if defined(__linux__)
            if (mapped) munmap(memory, mapped);
#endif
            if (!mapped) std::free(memory);
        }
    };
    using Memory = std::unique_ptr<void, Free>;

    // Return memory filled with zeros.
    static Memory allocate(size_t num_bytes) {
#if defined(__linux__)
        if (num_bytes >= HUGE_PAGE) {  // malloc would keep some of the memory when it is freed
            void* memory = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED) throw std::bad_alloc();
            return {memory, {num_bytes}};
        }
#endif
        Memory memory(std::malloc(num_bytes));
        if (!memory) throw std::bad_alloc();
        // Not calloc: a page that is read before it is written is a shared page of zeros, and
        // replacing this page at the first write interrupts the other threads.
        std::memset(memory.get(), 0, num_bytes);
        return memory;
    }

    size_t size_ = 0;
    Memory memory_;
    Entry* entries_ = nullptr;
};

// Stores byte strings at addresses that stay valid for the lifetime of the arena.
class Arena {
  public:
    const uint8_t* store(const uint8_t* bytes, size_t size) {
        if (size > free_) {
            const size_t block_size = std::max(size, BLOCK_SIZE);
            blocks_.emplace_back(new uint8_t[block_size]);
            next_ = blocks_.back().get();
            free_ = block_size;
        }
        uint8_t* stored = next_;
        std::memcpy(stored, bytes, size);
        next_ += size;
        free_ -= size;
        return stored;
    }

  private:
    static constexpr size_t BLOCK_SIZE = size_t{1} << 20;

    std::vector<std::unique_ptr<uint8_t[]>> blocks_;
    uint8_t* next_ = nullptr;
    size_t free_ = 0;
};

}  // namespace cs336
