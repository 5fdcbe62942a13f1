// Memory for large data: buffers, arrays of table entries, arenas, huge pages.

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

// The bytes behind a word that may be read (not used) when it is looked up.
constexpr size_t WORD_PADDING = 16;

// Ask for huge pages for memory that is not touched yet: small ones cost a fault for every 4 KiB.
inline void ask_for_huge_pages(void* memory, size_t num_bytes) {
#if defined(__linux__)
    constexpr uintptr_t HUGE_PAGE = uintptr_t{2} << 20;
    const uintptr_t start = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t first = (start + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    const uintptr_t last = (start + num_bytes) / HUGE_PAGE * HUGE_PAGE;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)memory, (void)num_bytes;
#endif
}

// Memory that grows without being filled: what a `std::vector` would set to zero is read anyway.
class Buffer {
  public:
    uint8_t* data() { return data_.get(); }
    // Give back the memory if it is more than that.
    void trim(size_t most) {
        if (capacity_ <= most) return;
        data_.reset();
        capacity_ = 0;
    }
    // Make room for `size` bytes and the padding that the table wants; the first `keep` bytes stay.
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

// Memory for entries of 32 bytes: all zero, and on huge pages where the system has them. They must
// be requested before the first touch; with small pages every look-up would also miss the TLB.
template <class Entry>
class EntryArray {
    static_assert(sizeof(Entry) == 32, "entries are aligned to their size");

  public:
    EntryArray() = default;
    explicit EntryArray(size_t size) : size_(size) {
        const size_t num_bytes = size * sizeof(Entry);
#if defined(__linux__)
        if (num_bytes >= HUGE_PAGE) {
            mapped_ = (num_bytes + 2 * HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
            void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED) throw std::bad_alloc();
            memory_ = memory;
            const uintptr_t aligned =
                (reinterpret_cast<uintptr_t>(memory) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
            entries_ = reinterpret_cast<Entry*>(aligned);
            ask_for_huge_pages(entries_, num_bytes);
            return;
        }
#endif
        memory_ = std::calloc(size + 1, sizeof(Entry));
        if (!memory_) throw std::bad_alloc();
        entries_ = reinterpret_cast<Entry*>(
            (reinterpret_cast<uintptr_t>(memory_) + 31) / 32 * 32);
    }
    EntryArray(EntryArray&& other) noexcept { swap(other); }
    EntryArray& operator=(EntryArray&& other) noexcept {
        swap(other);
        return *this;
    }
    ~EntryArray() {
#if defined(__linux__)
        if (mapped_) {
            munmap(memory_, mapped_);
            return;
        }
#endif
        std::free(memory_);
    }

    size_t size() const { return size_; }
    Entry& operator[](size_t i) { return entries_[i]; }
    const Entry& operator[](size_t i) const { return entries_[i]; }

  private:
    static constexpr size_t HUGE_PAGE = size_t{2} << 20;

    void swap(EntryArray& other) noexcept {
        std::swap(entries_, other.entries_);
        std::swap(size_, other.size_);
        std::swap(memory_, other.memory_);
        std::swap(mapped_, other.mapped_);
    }

    Entry* entries_ = nullptr;
    size_t size_ = 0;
    void* memory_ = nullptr;
    size_t mapped_ = 0;
};

// Bytes that stay where they are until the arena goes.
class Arena {
  public:
    const uint8_t* store(const uint8_t* bytes, size_t size) {
        if (size > free_) {
            const size_t chunk = std::max(size, CHUNK);
            chunks_.emplace_back(new uint8_t[chunk]);
            next_ = chunks_.back().get();
            free_ = chunk;
        }
        uint8_t* place = next_;
        std::memcpy(place, bytes, size);
        next_ += size;
        free_ -= size;
        return place;
    }

  private:
    static constexpr size_t CHUNK = size_t{1} << 20;

    std::vector<std::unique_ptr<uint8_t[]>> chunks_;
    uint8_t* next_ = nullptr;
    size_t free_ = 0;
};

}  // namespace cs336
