// InputFile: a file that any number of threads can read at given offsets.

#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

#if defined(_WIN32)
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <io.h>
#include <windows.h>

#include <filesystem>
#include <system_error>
#else
#include <unistd.h>
#endif

namespace cs336 {

class InputFile {
  public:
    InputFile() = default;
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;
    ~InputFile() { close(); }

    // Returns 0 or errno. On Windows, the path is UTF-8, as os.fsencode returns it.
    int open(const std::string& path) {
        close();
        descriptor_ = open_descriptor(path);
        return descriptor_ < 0 ? errno : 0;
    }

    // Read [offset, offset + size). Returns -errno or the number of bytes read, which is less than
    // `size` only at the end of the file.
    int64_t read(uint64_t offset, uint8_t* data, size_t size) {
        size_t done = 0;
        while (done < size) {
            const int64_t got =
                read_some(offset + done, data + done, std::min(size - done, MAX_READ));
            if (got < 0) {
                if (errno == EINTR) continue;
                return -int64_t(errno);
            }
            if (got == 0) break;
            done += size_t(got);
        }
        return int64_t(done);
    }

    // The size of the file in bytes, or UINT64_MAX if unknown.
    uint64_t size() const {
#if defined(_WIN32)
        const int64_t size = _filelengthi64(descriptor_);
        return size < 0 ? UINT64_MAX : uint64_t(size);
#else
        struct stat status;
        return fstat(descriptor_, &status) ? UINT64_MAX : uint64_t(status.st_size);
#endif
    }

    void close() {
        if (descriptor_ < 0) return;
#if defined(_WIN32)
        _close(descriptor_);
#else
        ::close(descriptor_);
#endif
        descriptor_ = -1;
    }

  private:
    static constexpr size_t MAX_READ = size_t{1} << 30;  // some systems refuse larger reads

#if defined(_WIN32)
    static int open_descriptor(const std::string& path) {
        return _wopen(std::filesystem::u8path(path).c_str(),
                      _O_RDONLY | _O_BINARY | _O_NOINHERIT | _O_RANDOM);
    }

    // Like pread: the request contains the offset, so threads do not share a file position.
    int64_t read_some(uint64_t offset, uint8_t* data, size_t size) {
        OVERLAPPED position = {};
        position.Offset = DWORD(offset);
        position.OffsetHigh = DWORD(offset >> 32);
        DWORD got = 0;
        const HANDLE handle = reinterpret_cast<HANDLE>(_get_osfhandle(descriptor_));
        if (ReadFile(handle, data, DWORD(size), &got, &position)) return got;
        const DWORD error = GetLastError();
        if (error == ERROR_HANDLE_EOF) return 0;
        errno = std::system_category().default_error_condition(int(error)).value();
        return -1;
    }
#else
    static int open_descriptor(const std::string& path) {
        return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    }

    int64_t read_some(uint64_t offset, uint8_t* data, size_t size) {
        return ::pread(descriptor_, data, size, off_t(offset));
    }
#endif

    int descriptor_ = -1;
};

}  // namespace cs336
