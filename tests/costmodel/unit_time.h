// Time models of tests: an instruction takes its FLOPs in seconds, a collective its bytes.
#pragma once

#include "costmodel/collective_time.h"
#include "costmodel/op_time.h"

namespace plimsoll {

class FlopsAreSeconds final : public OpTimeModel {
 public:
  double op_seconds(const Instruction& instruction, const Hardware&, DType) const override {
    return instruction.flops;
  }
};

class BytesAreSeconds final : public CollectiveTimeModel {
 public:
  explicit BytesAreSeconds(double latency_seconds = 0) : latency_seconds_(latency_seconds) {}
  double collective_seconds(Collective, double bytes, const CollectiveGroup& group,
                            const Cluster&) const override {
    return group.size > 1 ? latency_seconds_ + bytes : 0;
  }

 private:
  double latency_seconds_;
};

}  // namespace plimsoll
