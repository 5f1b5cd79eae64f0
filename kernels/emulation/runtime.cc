#include "kernels/emulation/runtime.h"

#include "base/error.h"
#include "base/rng.h"
#include "kernels/emulation/address_space.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

namespace plimsoll::emulation {

// For each stream of the device the number of its pieces of work that have happened before.
using Clock = std::map<int, int64_t>;

namespace {

void merge(Clock& into, const Clock& from) {
  for (const auto& [stream, tick] : from) {
    int64_t& mine = into[stream];
    mine = std::max(mine, tick);
  }
}

struct Recorded {
  bool done = false;
  Clock clock;
};

struct Work {
  std::function<Fault()> run;           // a kernel, a copy, a library's call
  std::shared_ptr<Recorded> waits_for;  // or a wait
  std::shared_ptr<Recorded> records;    // or the record of an event
};

// The newest use of a range by a stream.
struct Use {
  uintptr_t begin, end;
  bool writes;
  int stream;
  int64_t tick;
  std::string name;
};

}  // namespace

struct Stream {
  int id = 0;
  Clock clock;
  std::deque<Work> work;
};

struct Event {
  std::shared_ptr<Recorded> last;
};

namespace {

struct Device {
  std::recursive_mutex mutex;
  std::vector<std::unique_ptr<Stream>> streams;
  int next_stream = 0;
  Clock host;  // what the host has waited for
  std::vector<Use> uses;
  Fault fault;
  int64_t used_bytes = 0;
  std::map<void*, int64_t> sizes;
  uint64_t draws = 0;
};

thread_local int current_device = 0;

Device& device() {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Device>> devices;
  const std::scoped_lock lock(mutex);
  std::unique_ptr<Device>& found = devices[current_device];
  if (found == nullptr) found = std::make_unique<Device>();
  return *found;
}

cudaError_t error_of(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kNone:
      return cudaSuccess;
    case FaultKind::kOutOfBounds:
    case FaultKind::kMisaligned:
      return cudaErrorIllegalAddress;
    case FaultKind::kBadLaunch:
      return cudaErrorInvalidValue;
    default:
      return cudaErrorLaunchFailure;
  }
}

void fail(Device& d, Fault fault) {
  if (d.fault.kind == FaultKind::kNone) d.fault = std::move(fault);
}

// Finds work of other streams on the same bytes that nothing orders before this.
void check_order(Device& d, const Stream& stream, const std::string& name,
                 std::span<const cuda::OperandRange> operands) {
  const int64_t tick = stream.clock.at(stream.id);
  for (const cuda::OperandRange& range : operands) {
    const auto begin = reinterpret_cast<uintptr_t>(range.begin);
    const uintptr_t end = begin + static_cast<uintptr_t>(range.bytes);
    bool known = false;
    for (Use& use : d.uses) {
      if (use.end <= begin || end <= use.begin) continue;
      if (use.stream == stream.id) {
        if (use.begin == begin && use.end == end && use.writes == range.writable) {
          use.tick = tick;
          use.name = name;
          known = true;
        }
        continue;
      }
      const auto seen = stream.clock.find(use.stream);
      const bool ordered = seen != stream.clock.end() && seen->second >= use.tick;
      if (!ordered && (use.writes || range.writable)) {
        fail(d, {FaultKind::kStreamOrder,
                 fmt::format("{} on stream {} uses {} bytes that {} on stream {} {}, and no event "
                             "orders the two",
                             name, stream.id, std::min(end, use.end) - std::max(begin, use.begin),
                             use.name, use.stream, use.writes ? "writes" : "reads")});
      }
    }
    if (!known) d.uses.push_back({begin, end, range.writable, stream.id, tick, name});
  }
}

cudaError_t add_work(Device& d, cudaStream_t stream, const std::string& name,
                     std::span<const cuda::OperandRange> operands, std::function<Fault()> run) {
  if (d.fault.kind != FaultKind::kNone) return error_of(d.fault);
  if (stream == nullptr) return cudaErrorInvalidValue;
  merge(stream->clock, d.host);
  ++stream->clock[stream->id];
  check_order(d, *stream, name, operands);
  if (d.fault.kind != FaultKind::kNone) return error_of(d.fault);
  stream->work.push_back({std::move(run), nullptr, nullptr});
  return cudaSuccess;
}

[[nodiscard]] bool can_run(const Stream& stream) {
  if (stream.work.empty()) return false;
  const std::shared_ptr<Recorded>& event = stream.work.front().waits_for;
  return event == nullptr || event->done;
}

// Runs work of any stream until `finished` says so; which stream goes next is drawn.
template <class Finished>
cudaError_t run_until(Device& d, const Finished& finished) {
  while (d.fault.kind == FaultKind::kNone && !finished()) {
    std::vector<Stream*> able;
    for (const auto& stream : d.streams) {
      if (can_run(*stream)) able.push_back(stream.get());
    }
    PLIMSOLL_CHECK(!able.empty(), "emulated streams wait for one another in a circle");
    const uint64_t seed = settings().seed;
    Stream& next = *able[seed == 0 ? 0 : splitmix64(seed + ++d.draws) % able.size()];
    Work work = std::move(next.work.front());
    next.work.pop_front();
    if (work.records != nullptr) work.records->done = true;
    if (work.run) fail(d, work.run());
  }
  return error_of(d.fault);
}

// The host has waited for what the clock says: later work is ordered behind it.
void host_saw(Device& d, const Clock& clock) {
  merge(d.host, clock);
  std::erase_if(d.uses, [&](const Use& use) {
    const auto seen = d.host.find(use.stream);
    return seen != d.host.end() && seen->second >= use.tick;
  });
}

}  // namespace

Settings& settings() {
  static Settings instance;
  return instance;
}

Fault last_fault() {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  return d.fault;
}

void reset_device() {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  d.fault = {};
  d.uses.clear();
  for (const auto& stream : d.streams) stream->work.clear();
}

const char* cudaGetErrorString(cudaError_t error) {
  thread_local std::string text;
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidDevice:
      return "no such device";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    default:
      break;
  }
  text = last_fault().text;
  return text.empty() ? "invalid value" : text.c_str();
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().num_devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int index) {
  if (index < 0 || index >= settings().num_devices) return cudaErrorInvalidDevice;
  current_device = index;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  const auto size = static_cast<int64_t>(bytes);
  if (size > settings().device_bytes - d.used_bytes) return cudaErrorMemoryAllocation;
  *memory = AddressSpace::instance().allocate(size);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  d.sizes[*memory] = size;
  d.used_bytes += size;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  const auto found = d.sizes.find(memory);
  if (found == d.sizes.end() || !AddressSpace::instance().release(memory))
    return cudaErrorInvalidValue;
  d.used_bytes -= found->second;
  d.sizes.erase(found);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  *memory = ::operator new(bytes, std::nothrow);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  ::operator delete(memory);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  *total = static_cast<size_t>(settings().device_bytes);
  *free = static_cast<size_t>(settings().device_bytes - d.used_bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  std::vector<cuda::OperandRange> operands;
  const auto size = static_cast<int64_t>(bytes);
  if (kind != cudaMemcpyHostToDevice) operands.push_back({from, size, false});
  if (kind != cudaMemcpyDeviceToHost) operands.push_back({to, size, true});
  for (const cuda::OperandRange& range : operands) {
    const auto begin = reinterpret_cast<uintptr_t>(range.begin);
    const auto allocation = AddressSpace::instance().find(begin);
    if (allocation == nullptr || begin + bytes > allocation->end()) {
      fail(d, {FaultKind::kOutOfBounds,
               fmt::format("a copy of {} bytes leaves the device's memory", bytes)});
    }
  }
  return add_work(d, stream, "a copy", operands, [=] {
    std::memcpy(to, from, bytes);
    return Fault{};
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  d.streams.push_back(std::make_unique<Stream>());
  *stream = d.streams.back().get();
  (*stream)->id = d.next_stream++;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  const cudaError_t error = cudaStreamSynchronize(stream);
  std::erase_if(d.streams, [&](const auto& one) { return one.get() == stream; });
  return error;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  const cudaError_t error = run_until(d, [&] { return stream->work.empty(); });
  host_saw(d, stream->clock);
  return error;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  if (event->last == nullptr) return cudaSuccess;
  merge(stream->clock, event->last->clock);
  stream->work.push_back({nullptr, event->last, nullptr});
  return error_of(d.fault);
}

cudaError_t cudaDeviceSynchronize() {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  const cudaError_t error = run_until(d, [&] {
    return std::all_of(d.streams.begin(), d.streams.end(),
                       [](const auto& s) { return s->work.empty(); });
  });
  for (const auto& stream : d.streams) host_saw(d, stream->clock);
  return error;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new Event;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  event->last = std::make_shared<Recorded>();
  event->last->clock = stream->clock;
  stream->work.push_back({nullptr, nullptr, event->last});
  return error_of(d.fault);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  if (event->last == nullptr) return cudaSuccess;
  const std::shared_ptr<Recorded> recorded = event->last;
  const cudaError_t error = run_until(d, [&] { return recorded->done; });
  host_saw(d, recorded->clock);
  return error;
}

cudaError_t launch_grid(Grid grid, cudaStream_t stream) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  const auto shared = std::make_shared<const Grid>(std::move(grid));
  return add_work(d, stream, shared->kernel, shared->operands,
                  [shared, &d] { return run_grid(*shared, settings().seed == 0 ? 0 : ++d.draws); });
}

cudaError_t enqueue(const char* name, std::span<const cuda::OperandRange> operands,
                    std::function<void()> work, cudaStream_t stream) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  return add_work(d, stream, name, operands, [work = std::move(work)] {
    work();
    return Fault{};
  });
}

}  // namespace plimsoll::emulation
