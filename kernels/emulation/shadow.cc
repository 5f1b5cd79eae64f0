#include "kernels/emulation/shadow.h"

namespace plimsoll::emulation {

// Of two accesses in one interval; `mark` is the earlier one.
bool ShadowWord::is_ordered(const Mark& mark, const Accessor& who) {
  if (mark.kind == kMany) return false;
  if (mark.kind == kOne && mark.thread == who.thread) return true;
  return mark.thread / 32 == who.warp() && mark.warp_sync != who.warp_sync;
}

Conflict ShadowWord::note(const Accessor& who, Access access, uint8_t mask, bool must_be_written,
                          int* other) {
  const bool writes = access != Access::kRead;
  Conflict conflict = Conflict::kNone;
  const bool both_atomic = access == Access::kAtomic && write_.kind == kByAtomic;
  if (write_.interval < who.launch_interval ||
      (must_be_written && write_.interval < who.block_interval)) {
    if (must_be_written && access != Access::kWrite) conflict = Conflict::kUninitialised;
  } else if ((write_.mask & mask) != 0 && !both_atomic) {
    if (write_.interval < who.block_interval) conflict = Conflict::kBlock;
    const bool by_self = write_.thread == who.thread;
    if (write_.interval == who.interval && !by_self && !is_ordered(write_, who)) {
      conflict = Conflict::kThread;
    }
    *other = write_.thread;
  }
  if (writes && conflict == Conflict::kNone && (read_.mask & mask) != 0 &&
      read_.interval >= who.launch_interval) {
    if (read_.interval < who.block_interval && !must_be_written) conflict = Conflict::kBlock;
    if (read_.interval == who.interval && !is_ordered(read_, who)) conflict = Conflict::kThread;
    *other = read_.thread;
  }
  if (writes) {
    write_ = {who.interval, who.thread, who.warp_sync, mask,
              access == Access::kAtomic ? kByAtomic : kOne};
    // An atomic's own read is no read that a later atomic of another thread conflicts with.
    return conflict;
  }
  if (read_.interval != who.interval) {
    read_ = {who.interval, who.thread, who.warp_sync, mask, kOne};
    return conflict;
  }
  if (read_.kind != kOne || read_.thread != who.thread) {
    const bool same_warp = read_.kind != kMany && read_.thread / 32 == who.warp();
    read_.kind = same_warp ? kWarp : kMany;
  }
  read_.warp_sync = who.warp_sync;
  read_.mask = static_cast<uint8_t>(read_.mask | mask);
  return conflict;
}

}  // namespace plimsoll::emulation
