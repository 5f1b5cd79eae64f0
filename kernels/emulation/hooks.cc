// The functions that a compiler calls at loads and stores under -fsanitize=thread. The emulated
// kernels are compiled with that flag and linked to these instead of a sanitizer, so that every
// access of an unchanged kernel is checked.
#include "kernels/emulation/block.h"

#if !defined(__SANITIZE_THREAD__)

using plimsoll::emulation::note_access;

extern "C" {

#define PLIMSOLL_HOOKS(bytes)                                                  \
  void __tsan_read##bytes(void* p) { note_access(p, bytes, false); }           \
  void __tsan_write##bytes(void* p) { note_access(p, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* p) { note_access(p, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* p) { note_access(p, bytes, true); }

void __tsan_init() {}
PLIMSOLL_HOOKS(1)
PLIMSOLL_HOOKS(2)
PLIMSOLL_HOOKS(4)
PLIMSOLL_HOOKS(8)
PLIMSOLL_HOOKS(16)
void __tsan_read_range(void* p, unsigned long n) { note_access(p, static_cast<int64_t>(n), false); }
void __tsan_write_range(void* p, unsigned long n) { note_access(p, static_cast<int64_t>(n), true); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

}  // extern "C"

#endif
