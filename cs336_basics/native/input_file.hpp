// InputFile: a file that is read at given offsets.

#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cs336 {

class InputFile {
  public:
    ~InputFile() { close(); }

    // Returns 0, or errno if it fails.
    int open(const std::string& path) {
        close();
        descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        return descriptor_ < 0 ? errno : 0;
    }

    // Read [offset, offset + size). Returns the number of bytes read, which is less than `size`
    // only at the end of the file, or -errno.
    int64_t read(uint64_t offset, uint8_t* data, size_t size) {
        size_t done = 0;
        while (done < size) {
            const ssize_t got = ::pread(descriptor_, data + done, std::min(size - done, MAX_READ),
                                        off_t(offset + done));
            if (got < 0) {
                if (errno == EINTR) continue;
                return -int64_t(errno);
            }
            if (got == 0) break;
            done += size_t(got);
        }
        return int64_t(done);
    }

    // UINT64_MAX if it is unknown.
    uint64_t size() const {
        struct stat status;
        return fstat(descriptor_, &status) ? UINT64_MAX : uint64_t(status.st_size);
    }

    void close() {
        if (descriptor_ >= 0) ::close(descriptor_);
        descriptor_ = -1;
    }

  private:
    static constexpr size_t MAX_READ = size_t{1} << 30;  // some systems refuse to read more at once

    int descriptor_ = -1;
};

}  // namespace cs336
