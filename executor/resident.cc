#include "executor/resident.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace plimsoll {

int64_t process_resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  char line[256];
  long long kib = 0;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::sscanf(line, "VmRSS: %lld kB", &kib) == 1) break;
  }
  std::fclose(file);
  return static_cast<int64_t>(kib) * 1024;
}

int64_t thread_stack_resident_bytes() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* stack = nullptr;
  size_t bytes = 0;
  pthread_attr_getstack(&attributes, &stack, &bytes);
  pthread_attr_destroy(&attributes);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  if (mincore(stack, bytes, pages.data()) != 0) return 0;
  int64_t resident = 0;
  for (const unsigned char one : pages) {
    if ((one & 1U) != 0) resident += static_cast<int64_t>(page);
  }
  return resident;
}

}  // namespace plimsoll
