// Stand-ins for the part of the CUDA runtime that the backend uses, with the same names and
// meanings: work is queued on streams and runs when somebody waits for it, in an order that
// depends on `seed` as far as events allow. An error is sticky, as on a GPU.
//
// On top: each piece of work names the memory it uses, and work of two streams on the same bytes,
// one of them writing, with no event between them is an error whatever order it happens to run in.
#pragma once

#include "kernels/emulation/block.h"
#include "kernels/emulation/fault.h"

#include <cstddef>
#include <cstdint>

namespace plimsoll::emulation {

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidDevice = 101,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
};
enum cudaMemcpyKind : int {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3
};
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;

struct Stream;
struct Event;
using cudaStream_t = Stream*;
using cudaEvent_t = Event*;

// Settings of the emulation that a GPU does not have.
struct Settings {
  int num_devices = 16;
  int64_t device_bytes = int64_t{16} << 30;  // of each device
  uint64_t seed = 1;                         // order of streams and threads; 0: as written
};
Settings& settings();

// The calling thread's device: what went wrong first, and a fresh start after it.
[[nodiscard]] Fault last_fault();
void reset_device();

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);  // of the calling thread
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
// Host memory must stay as it is until the stream has been waited for.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

// The emulated form of a kernel launch.
cudaError_t launch_grid(Grid grid, cudaStream_t stream);
// Any other work of a library on a stream: `work` runs in the stream's order.
cudaError_t enqueue(const char* name, std::span<const cuda::OperandRange> operands,
                    std::function<void()> work, cudaStream_t stream);

}  // namespace plimsoll::emulation
